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
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"
#include "lib/ops/pieces.h"
#include "lib/ops/reduce.h"
#include "lib/ops/shapes.h"
#include <inttypes.h>

/* ---- shapes: T whole, T sharded ---- */
static enum status enter_shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTC"));
    out[0] = *c->in[0].type;
    out[0].shape.axis[1] = c->step->gather.whole;
    return OK;
}

static enum status exit_shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTC"));
    out[0] = *c->in[0].type;
    struct axis *t = &out[0].shape.axis[1];
    if (t->n % c->step->parts)
        return FAIL(E_CONFIG,
                    "sp: tp=%d does not divide the %" PRId64 " tokens of a sequence that a rank has; use another "
                    "tp, or another seq (of t5 also --noise and --span make the lengths), or leave sp out",
                    c->step->parts, t->n);
    *t = axis_part(t, c->step->parts, c->step->part);
    t->cut |= 1u << c->step->mesh_axis;
    return OK;
}

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

static enum status refuse_accumulate(const struct call *c) {
    if (!c->accumulate) return OK;
    return FAIL(E_INTERNAL, "%s's input has another consumer; its gradient cannot be exchanged in place",
                c->step->op->name);
}

/* ---- kernels ---- */
static enum status enter_forward(const struct call *c) { return gather(c, &c->in[0], &c->out[0]); }

/* With fixed sums every reader of x has its own sp_enter; its reduced gradient is added to the others'. The sum
 * overwrites dy, which lies packed in scratch and is not read after this. */
static enum status add_shard(const struct call *c) {
    const struct tensor sum = {c->dout[0].data, c->din[0].type};
    struct comm_request request = {0};
    TRY(scatter_start(c, &c->dout[0], &sum, &request));
    TRY(comm_wait(&request));
    return reduce_accumulate(c->device, c->din[0].data, sum.data, type_n(sum.type), sum.type->dtype);
}

static enum status enter_backward_input(const struct call *c) {
    if (c->accumulate && c->fixed_sums) return add_shard(c);
    TRY(refuse_accumulate(c));
    return scatter_start(c, &c->dout[0], &c->din[0], c->request);
}

static enum status exit_forward(const struct call *c) {
    struct comm_request request = {0};
    TRY(scatter_start(c, &c->in[0], &c->out[0], &request));
    return comm_wait(&request);
}
static enum status exit_backward_input(const struct call *c) {
    TRY(refuse_accumulate(c));
    return gather(c, &c->dout[0], &c->din[0]);
}

/* ---- work and cost: every row of these ops passes the whole tensor through ---- */
static const struct type *whole_type(const struct call *c) {
    return type_n(c->in[0].type) > type_n(c->out[0].type) ? c->in[0].type : c->out[0].type;
}
static int64_t work(const struct call *c, enum row_kind kind) {
    const struct type *whole = whole_type(c);
    bool gathers = (kind == ROW_BACKWARD_INPUT) == (c->step->op == &op_sp_exit);
    bool packs = whole->shape.axis[0].n > 1 || (c->fixed_sums && !gathers);
    return packs ? type_bytes(whole) : 0;
}
/* For both ops: enter gathers forward and scatters backward, exit the reverse. */
static int exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    bool forward = kind == ROW_FORWARD || kind == ROW_REPLAY, enters = c->step->op == &op_sp_enter;
    const struct type *whole = whole_type(c);
    out[0].op = forward == enters ? COMM_ALL_GATHER : COMM_REDUCE_SCATTER;
    out[0].count = type_n(whole);
    out[0].dtype = whole->dtype;
    return 1;
}

const struct op op_sp_enter = {
    .name = "sp_enter", .typing = TYPING_GATHER, .rule = RULE_GATHER, .shape = enter_shape, .has_backward_input = true,
    .async_backward = true, .work = work, .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({enter_forward, enter_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({enter_forward, enter_backward_input, NULL}))}};

const struct op op_sp_exit = {
    .name = "sp_exit", .typing = TYPING_SCATTER, .shape = exit_shape, .has_backward_input = true, .work = work,
    .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({exit_forward, exit_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({exit_forward, exit_backward_input, NULL}))}};
