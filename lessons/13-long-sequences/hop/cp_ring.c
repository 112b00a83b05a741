/* Exercise: the ring's backward (lesson 13, "The ring backward: one hop more").
 *
 * Forward is given. Rank r keeps its queries. At hop s it computes with the block of keys and values of rank r - s (mod
 * n), while it sends that block to r + 1 and receives the next block from r - 1.
 *
 * Backward sends the blocks around the ring again. At every hop a rank computes the part of dq that the block's keys
 * cause, and the part of the block's dk and dv that the rank's queries cause. dq stays on the rank. dk and dv belong to
 * the block's owner, so their sums are sent along the ring.
 *
 * There are three types of the project:
 *
 *   struct cp_blocks      cp/cp_block.h: n = x->ranks, x->group, and the memory of the blocks. A block has x->count
 *                         elements of type x->dtype, and its sums as many of x->sum_dtype
 *   struct comm_request   lib/comm/comm_request.h: a message in flight; {0}: none, and then comm_wait returns at once
 *   struct exchange       lib/comm/exchange.h: messages on the bill: their count (elements of all of them), dtype, and
 *                         pieces (the number of messages)
 *
 * From cp/cp_block.h:
 *
 *   cp_pack_own        copies the rank's own keys and values into a block
 *   cp_block, cp_sums  the buffer of the block of hop s, and of its sums; there are two of each, used in turns. Their
 *                      content is undefined at first
 *   cp_clear_sums      sets sums to zero
 *   cp_meet_backward   computes one hop: adds to dq, which begins with zeros, and to the sums of the block
 *   cp_finish_backward writes dq, and the rank's own dk and dv, to the program's tensors
 *   cp_peer(x, by)     the rank `by` further in the ring
 *
 * From lib/comm/comm.h: comm_send_start, comm_recv_start, and comm_wait, which has a deadline. Before you write to a
 * buffer that is being sent, wait for the send. Sums have the tag TAG_SUMS.
 *
 * After step 1 the first claim holds: grade then. The steps stand in the order in which to write them.
 *
 * Grade a copy in my/ with: make grade LESSON=13 FILE=my/cp_ring.c EXERCISE=hop */
#include "cp/cp_block.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"

/* Tags of messages to the next rank (group_carry_messages). */
enum { TAG_BLOCK = 0, TAG_SUMS = 3 };

struct turn { struct comm_request send, receive; };

/* Start to send the block of hop s and to receive the next block, while the rank computes with the block of hop s. */
static enum status turn_start(const struct cp_blocks *x, int s, struct turn *t) {
    *t = (struct turn){{0}, {0}};
    if (s == x->ranks - 1) return OK;
    TRY(comm_recv_start(x->group, cp_block(x, s + 1), x->count, x->dtype, cp_peer(x, -1), TAG_BLOCK, &t->receive));
    return comm_send_start(x->group, cp_block(x, s), x->count, x->dtype, cp_peer(x, 1), TAG_BLOCK, &t->send);
}
static enum status turn_end(struct turn *t) {
    TRY(comm_wait(&t->receive));
    return comm_wait(&t->send);
}

enum status cp_ring_forward(struct cp_blocks *x) {
    TRY(cp_pack_own(x, cp_block(x, 0)));
    for (int s = 0; s < x->ranks; s++) {
        struct turn t;
        TRY(turn_start(x, s, &t));
        TRY(cp_meet(x, cp_peer(x, -s), cp_block(x, s)));
        TRY(turn_end(&t));
    }
    return cp_finish(x);
}

/* TODO 2: receive the other ranks' sums of dk and dv of the block of hop s into cp_sums(x, s). last_send is the request
 * of the last send from the same buffer. Which hop receives nothing, and begins with zeros? */
static enum status receive_sums(const struct cp_blocks *x, int s, struct comm_request *last_send) {
    (void)x, (void)s, (void)last_send;
    return OK;
}

/* TODO 1: the loop, as in cp_ring_forward; receive_sums comes before each cp_meet_backward. Now dq is right.
 * TODO 3: after this rank has added to a block's sums, send them to the next rank. After the last hop the rank's own
 * sums have not arrived yet: receive them, and give them to cp_finish_backward. No message is in flight at the end. */
enum status cp_ring_backward(struct cp_blocks *x) {
    struct comm_request sent[CP_RING_BLOCKS] = {{0}};
    TRY(cp_pack_own(x, cp_block(x, 0)));
    TRY(receive_sums(x, 0, &sent[0]));
    return FAIL(E_TODO, "cp_ring_backward is still to be written");
}

/* TODO 4: the bill of TODO 3, of one rank in one backward: out->pieces messages with out->count elements in all, of
 * out->dtype. */
void cp_ring_sums_sent(const struct cp_blocks *x, struct exchange *out) {
    (void)x;
    out->pieces = 0, out->count = 0;
}
