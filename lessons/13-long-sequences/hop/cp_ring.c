/* Exercise: the ring's backward (lesson 13, "The ring backward: one hop more").
 *
 * Forward is given. Rank r keeps its queries. At hop s it computes with the block of keys and values of rank r - s (mod
 * n), while it sends that block to r + 1 and receives the next block from r - 1.
 *
 * Backward sends the blocks around the ring again. At every hop a rank computes the part of dq that the block's keys
 * cause, and the part of the block's dk and dv that the rank's queries cause. dq stays on the rank. dk and dv belong to
 * the block's owner, so their sums are sent along the ring. Write
 *
 *   receive_sums           receive other ranks' sums of the block of hop s
 *   ring_backward_input    the loop over the hops
 *   ring_exchanges         the messages of backward, in addition to the blocks
 *
 * From cp/cp_block.h:
 *
 *   cp_blocks_begin    lays out the scratch (c->work), whose content is undefined, and clears dq only
 *   cp_pack_own        copies the rank's own keys and values into a block
 *   cp_block, cp_sums  the buffer of the block of hop s, and of its sums; there are two of each, used in turns
 *   cp_clear_sums      sets sums to zero
 *   cp_meet_backward   computes one hop: adds to dq, and to the sums of the block
 *   cp_finish_backward writes dq, and the rank's own dk and dv, to the program's tensors
 *   cp_peer(c, by)     the rank `by` further in the ring
 *
 * From lib/comm/comm.h: comm_send_start, comm_recv_start, and comm_wait, which has a deadline. Before you write to a
 * buffer that is being sent, wait for the send. Sums have x->count elements of dtype_accumulator(op_dtype(c)), and the
 * tag TAG_SUMS.
 *
 * Grade a copy in my/ with: make grade LESSON=13 FILE=my/cp_ring.c EXERCISE=hop */
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

/* TODO: receive the other ranks' sums of dk and dv of the block of hop s into cp_sums(x, s). last_send is the request
 * of the last send from the same buffer. Which hop receives nothing, and begins with zeros? */
static enum status receive_sums(const struct cp_blocks *x, int s, struct comm_request *last_send) {
    (void)x, (void)s, (void)last_send;
    return FAIL(E_TODO, "receive_sums is still to be written");
}

/* TODO: as ring_forward, but send also the block's sums, after this rank has added to them. After the last hop the
 * rank's own sums have not arrived yet. */
static enum status ring_backward_input(const struct call *c) {
    struct cp_blocks x;
    struct comm_request sent[BLOCKS] = {{0}};
    TRY(cp_blocks_begin(&x, c, BLOCKS, BLOCKS, true));
    x.pair.between = comm_progress;
    TRY(cp_pack_own(&x, cp_block(&x, 0)));
    TRY(receive_sums(&x, 0, &sent[0]));
    return FAIL(E_TODO, "ring_backward_input is still to be written");
}

static int64_t ring_work(const struct call *call, enum row_kind kind) {
    return cp_blocks_work(call, BLOCKS, BLOCKS, kind == ROW_BACKWARD_INPUT);
}

/* Messages that a row sends. out[0]: the block, once per hop. TODO: out[1], the other messages of backward. `count` is
 * the sum over all `pieces`. */
static int ring_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    int64_t block = cp_blocks_of(c, BLOCKS, BLOCKS).count, hops = c->step->parts - 1;
    (void)kind;
    out[0].op = COMM_SEND;
    out[0].count = hops * block, out[0].dtype = op_dtype(c), out[0].pieces = (int)hops;
    return 1;
}

const struct op op_cp_ring = {
    .name = "cp_ring", CP_ATTENTION, .work = ring_work, .exchanges = ring_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({ring_forward, ring_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({ring_forward, ring_backward_input, NULL}))}};
