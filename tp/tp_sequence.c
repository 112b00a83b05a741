/* Sequence parallelism: the ends of a region, when the sequence is sharded between regions.
 *
 * With tp alone, layernorms, residuals and dropout work on the whole (B,T,C), the same on every rank: tp times the
 * memory and the work. But they treat each token by itself, so each rank can keep T/tp tokens. Then a region starts
 * with an all-gather of tokens and ends with a reduce-scatter:
 *
 *   sp_enter (g)       forward   all-gather       y = [x_0 ; x_1 ; ...]
 *                      backward  reduce-scatter   dx_r = shard r of sum dy
 *   sp_exit  (g-bar)   forward   reduce-scatter   y_r = shard r of sum x
 *                      backward  all-gather       dx = [dy_0 ; dy_1 ; ...]
 *
 * Sent: an all-reduce is a reduce-scatter and an all-gather, so sp_enter and sp_exit send the bytes of tp_enter and
 * tp_exit. Stored: 1/tp of the activations outside regions. The output of sp_enter is not kept for backward
 * (slot.replay). It is gathered again, one all-gather per product, as in Megatron-LM.
 *
 * Layout: a rank has a run of tokens of every sequence of the batch. In (B,T,C) its runs are not contiguous, and the
 * collectives need them contiguous. So with B > 1 they are transposed through scratch:  (B,T,C) <-> (tp,B,T/tp,C).
 *
 * Source: Korthikanti et al. 2022, section 4.2.2. */
#include "tp/tp_sequence.h"

#include "lib/comm/comm_request.h"
#include "lib/ops/pieces.h"

/* ---- (B,T,C) <-> (tp,B,T/tp,C): transpose of a matrix of pieces ---- */
struct pieces { int64_t B, parts, bytes; };   /* bytes: one rank's tokens of one sequence */

static struct pieces pieces_of(const struct call *c, const struct type *whole) {
    const struct axis *a = whole->shape.axis;
    int64_t parts = c->step->parts;
    return (struct pieces){a[0].n, parts, a[1].n / parts * a[2].n * (int64_t)dtype_size(whole->dtype)};
}

static enum status by_rank(const struct call *c, struct pieces p, void *to, const void *whole) {
    return pieces_transpose(c->device, to, whole, p.B, p.parts, p.bytes);
}
static enum status by_sequence(const struct call *c, struct pieces p, void *whole, const void *from) {
    return pieces_transpose(c->device, whole, from, p.parts, p.B, p.bytes);
}

/* whole = the shards of all ranks. */
static enum status gather(const struct call *c, const struct tensor *shard, const struct tensor *whole) {
    struct pieces p = pieces_of(c, whole->type);
    void *to = p.B == 1 ? whole->data : c->work;
    TRY(comm_all_gather(c->group, shard->data, to, type_n(shard->type), whole->type->dtype));
    return p.B > 1 ? by_sequence(c, p, whole->data, to) : OK;
}

/* shard = this rank's shard of the sum of all ranks' whole tensors. */
static enum status scatter_start(const struct call *c, const struct tensor *whole, const struct tensor *shard,
                                 struct comm_request *request) {
    struct pieces p = pieces_of(c, whole->type);
    bool packs = p.B > 1 || c->fixed_sums;
    const void *from = packs ? c->work : whole->data;
    if (packs) TRY(by_rank(c, p, c->work, whole->data));
    return comm_reduce_scatter_start(c->group, from, shard->data, type_n(shard->type), whole->type->dtype, request);
}

/* ---- kernels ---- */
enum status sp_enter_forward(const struct call *c) { return gather(c, &c->in[0], &c->out[0]); }
enum status sp_enter_backward(const struct call *c) { return scatter_start(c, &c->dout[0], &c->din[0], c->request); }

enum status sp_exit_forward(const struct call *c) {
    struct comm_request request = {0};
    TRY(scatter_start(c, &c->in[0], &c->out[0], &request));
    return comm_wait(&request);
}
enum status sp_exit_backward(const struct call *c) { return gather(c, &c->dout[0], &c->din[0]); }

/* ---- work and cost: every row of these ops passes the whole tensor through ---- */
static const struct type *whole_type(const struct call *c) {
    return type_n(c->in[0].type) > type_n(c->out[0].type) ? c->in[0].type : c->out[0].type;
}
int64_t sp_work(const struct call *c, bool enters, bool forward) {
    const struct type *whole = whole_type(c);
    bool packs = whole->shape.axis[0].n > 1 || (c->fixed_sums && enters != forward);
    return packs ? type_bytes(whole) : 0;
}
/* For both ops: enter gathers forward and scatters backward, exit the reverse. */
int sp_exchanges(const struct call *c, bool enters, bool forward, struct exchange out[MAX_EXCHANGES]) {
    const struct type *whole = whole_type(c);
    out[0].op = forward == enters ? COMM_ALL_GATHER : COMM_REDUCE_SCATTER;
    out[0].count = type_n(whole);
    out[0].dtype = whole->dtype;
    return 1;
}
