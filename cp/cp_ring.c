/* Ring attention: attention over a sequence that no rank has whole.
 *
 * Rank r keeps its queries; keys and values go round. At hop s it works with the block of rank r - s (mod cp);
 * meanwhile it sends that block on to r + 1, and receives the next from r - 1. After cp hops every query has met every
 * key that it may see (cp_block.c).
 *
 * Backward goes round once more. The sums of a block's dk and dv (reals) travel with the block: each rank adds its part
 * and sends them on, one hop more than the block itself, so that they end at the owner. The sum begins with the owner
 * and follows the ring: its order depends on the layout.
 *
 * Sent per layer, S = 2 B T/cp C elements: forward (cp - 1) S; backward (cp - 1) S, and cp S reals. Stored in scratch:
 * two blocks, and in backward two blocks of gradients, in reals.
 *
 * What breaks: a ring that turns the wrong way (with 2 ranks no test sees it); dk and dv that stop one hop before their
 * owner; dropout drawn by local positions.
 *
 * Source: Liu et al. 2023, "Ring Attention"; Brandon et al. 2023, "Striped Attention". */
#include "cp/cp_ring.h"

#include "cp/cp_block.h"
#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"

/* Tags of messages to the next rank (group_carry_messages). */
enum { BLOCKS = 2, TAG_BLOCK = 0, TAG_SUMS = 3 };

struct turn { struct comm_request send, receive; };

/* Start to send the block of hop s and to receive the next block, while the rank computes with the block of hop s. */
static enum status turn_start(const struct cp_blocks *x, int s, struct turn *t) {
    const struct call *c = x->call;
    *t = (struct turn){{0}, {0}};
    if (s == c->step->parts - 1) return OK;
    TRY(comm_recv_start(c->group, cp_block(x, s + 1), x->count, op_dtype(c), cp_peer(c, -1), TAG_BLOCK, &t->receive));
    return comm_send_start(c->group, cp_block(x, s), x->count, op_dtype(c), cp_peer(c, 1), TAG_BLOCK, &t->send);
}
static enum status turn_end(struct turn *t) {
    TRY(comm_wait(&t->receive));
    return comm_wait(&t->send);
}

static enum status ring_forward(const struct call *c) {
    struct cp_blocks x;
    TRY(cp_blocks_begin(&x, c, BLOCKS, BLOCKS, false));
    x.pair.between = comm_progress;
    TRY(cp_pack_own(&x, cp_block(&x, 0)));
    for (int s = 0; s < c->step->parts; s++) {
        struct turn t;
        TRY(turn_start(&x, s, &t));
        TRY(cp_meet(&x, cp_peer(c, -s), cp_block(&x, s)));
        TRY(turn_end(&t));
    }
    return cp_finish(&x);
}

/* Receive the partial sums of a block's dk and dv; the block's owner (hop 0) starts from zeros. */
static enum status receive_sums(const struct cp_blocks *x, int s, struct comm_request *last_send) {
    struct comm_request receive = {0};
    const struct call *c = x->call;
    TRY(comm_wait(last_send));                                       /* the last sums in this memory are sent */
    if (s == 0) TRY(cp_clear_sums(x, cp_sums(x, s), 1));
    else TRY(comm_recv_start(c->group, cp_sums(x, s), x->count, dtype_accumulator(op_dtype(c)), cp_peer(c, -1),
                             TAG_SUMS, &receive));
    return comm_wait(&receive);
}

static enum status ring_backward_input(const struct call *c) {
    struct cp_blocks x;
    struct comm_request sent[BLOCKS] = {{0}};
    int n = c->step->parts;
    TRY(cp_blocks_begin(&x, c, BLOCKS, BLOCKS, true));
    x.pair.between = comm_progress;
    TRY(cp_pack_own(&x, cp_block(&x, 0)));
    for (int s = 0; s < n; s++) {
        struct turn t;
        TRY(turn_start(&x, s, &t));
        TRY(receive_sums(&x, s, &sent[s % BLOCKS]));
        TRY(cp_meet_backward(&x, cp_peer(c, -s), cp_block(&x, s), cp_sums(&x, s)));
        TRY(comm_send_start(c->group, cp_sums(&x, s), x.count, dtype_accumulator(op_dtype(c)), cp_peer(c, 1), TAG_SUMS,
                            &sent[s % BLOCKS]));
        TRY(turn_end(&t));
    }
    TRY(receive_sums(&x, n, &sent[n % BLOCKS]));                     /* of this rank's own block */
    TRY(cp_finish_backward(&x, cp_sums(&x, n)));
    return comm_wait(&sent[(n - 1) % BLOCKS]);
}

static int64_t ring_work(const struct call *call, enum row_kind kind) {
    return cp_blocks_work(call, BLOCKS, BLOCKS, kind == ROW_BACKWARD_INPUT);
}

static int ring_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    int64_t block = cp_blocks_of(c, BLOCKS, BLOCKS).count, hops = c->step->parts - 1;
    out[0].op = out[1].op = COMM_SEND;
    out[0].count = hops * block, out[0].dtype = op_dtype(c), out[0].pieces = (int)hops;
    out[1].count = (hops + 1) * block, out[1].dtype = dtype_accumulator(op_dtype(c)), out[1].pieces = (int)hops + 1;
    return kind == ROW_BACKWARD_INPUT ? 2 : 1;
}

const struct op op_cp_ring = {
    .name = "cp_ring", CP_ATTENTION, .work = ring_work, .exchanges = ring_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({ring_forward, ring_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({ring_forward, ring_backward_input, NULL}))}};
