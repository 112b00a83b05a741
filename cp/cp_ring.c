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

/* Receive the partial sums of a block's dk and dv; the block's owner (hop 0) starts from zeros. */
static enum status receive_sums(const struct cp_blocks *x, int s, struct comm_request *last_send) {
    struct comm_request receive = {0};
    TRY(comm_wait(last_send));                                       /* the last sums in this memory are sent */
    if (s == 0) return cp_clear_sums(x, cp_sums(x, s), 1);
    TRY(comm_recv_start(x->group, cp_sums(x, s), x->count, x->sum_dtype, cp_peer(x, -1), TAG_SUMS, &receive));
    return comm_wait(&receive);
}

enum status cp_ring_backward(struct cp_blocks *x) {
    struct comm_request sent[CP_RING_BLOCKS] = {{0}};
    int n = x->ranks;
    TRY(cp_pack_own(x, cp_block(x, 0)));
    for (int s = 0; s < n; s++) {
        struct comm_request *send = &sent[s % CP_RING_BLOCKS];
        struct turn t;
        TRY(turn_start(x, s, &t));
        TRY(receive_sums(x, s, send));
        TRY(cp_meet_backward(x, cp_peer(x, -s), cp_block(x, s), cp_sums(x, s)));
        TRY(comm_send_start(x->group, cp_sums(x, s), x->count, x->sum_dtype, cp_peer(x, 1), TAG_SUMS, send));
        TRY(turn_end(&t));
    }
    TRY(receive_sums(x, n, &sent[n % CP_RING_BLOCKS]));              /* of this rank's own block */
    TRY(cp_finish_backward(x, cp_sums(x, n)));
    return comm_wait(&sent[(n - 1) % CP_RING_BLOCKS]);
}

void cp_ring_sums_sent(const struct cp_blocks *x, struct exchange *out) {
    out->pieces = x->ranks;
    out->count = x->ranks * x->count;
    out->dtype = x->sum_dtype;
}
