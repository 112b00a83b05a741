/* A rank's queries meet the keys of one rank after the other: common code of the ring (cp_ring.c, cp_ring_row.c) and
 * the gather (cp_gather.c). */
#pragma once

#include "lib/ops/attention/attention_pair.h"

struct exchange;     /* lib/comm/exchange.h */

/* A block: keys and values of a rank, (2,B,T/cp,J,D), dense; its gradients are reals of that shape. The ring uses two
 * blocks in turns, and two blocks of gradients. The gather has n blocks for n ranks, and n + 1 blocks of gradients. */
struct cp_blocks {
    const struct call *call;
    const struct group *group;           /* the ranks that share the sequence */
    int ranks;
    enum dtype dtype, sum_dtype;         /* of a block; of its gradients */
    struct attention_pair pair;          /* has the rank's own queries; each meeting sets the keys that they see */
    const struct attention_pair_kernels *k;
    int n, n_sums;                       /* blocks in memory; blocks of gradients in memory */
    int64_t count, bytes, sum_bytes;     /* of a block: elements, bytes, bytes of its gradients */
    int64_t queries;                     /* elements of the rank's queries */
    char *blocks, *sums;                 /* [n] and, in backward, [n_sums] */
    void *dq;                            /* reals (B,T/cp,H,D), in backward */
    struct attention_merge merge;        /* in forward */
};

/** Set only the sizes, because the call has no memory yet; and the bytes of scratch that the blocks need. */
struct cp_blocks cp_blocks_of(const struct call *, int n, int n_sums);
int64_t cp_blocks_work(const struct call *, int n, int n_sums, bool backward);
/** Lay the blocks out in the call's scratch, before the first meeting. @errors E_DEVICE  @collective{none} */
enum status cp_blocks_begin(struct cp_blocks *, const struct call *, int n, int n_sums, bool backward);
/** Zero the gradients of n blocks, from `sums` on. @errors E_DEVICE */
enum status cp_clear_sums(const struct cp_blocks *, char *sums, int n);

/** The rank that is `by` places further in the ring. */
int cp_peer(const struct cp_blocks *, int by);
static inline char *cp_block(const struct cp_blocks *x, int i) { return x->blocks + (i % x->n) * x->bytes; }
static inline char *cp_sums(const struct cp_blocks *x, int i) { return x->sums + (i % x->n_sums) * x->sum_bytes; }

/* A meeting is with the rank's own keys, with those of an earlier rank, or of a later one. */
/** One pair of each kind of meeting that the call has, without memory. @return their number, at most ATTENTION_PAIRS */
int cp_meetings(const struct call *, bool backward, struct attention_pair *out);

/** Copy this rank's keys and values into a block. @errors E_DEVICE */
enum status cp_pack_own(const struct cp_blocks *, char *block);
/** Attention to the keys of rank `other`, in `block`, merged into y and lse. @errors E_DEVICE  @collective{none} */
enum status cp_meet(struct cp_blocks *, int other, char *block);
/** Add the gradients of the same meeting to dq and to `sums`. @errors E_DEVICE  @collective{none} */
enum status cp_meet_backward(struct cp_blocks *, int other, char *block, char *sums);
/** Write the results of all meetings: forward y and lse, backward the gradients of the inputs. @errors E_DEVICE */
enum status cp_finish(const struct cp_blocks *);
enum status cp_finish_backward(const struct cp_blocks *, char *own_sums);

/* ---- the ring, and the gather ---- */
enum { CP_RING_BLOCKS = 2 };             /* n and n_sums of the ring */
extern const struct op op_cp_ring, op_cp_gather;

/** All meetings of a row, from cp_pack_own to cp_finish. x: begun, with CP_RING_BLOCKS blocks and sums.
 *  @collective{x->group}  @errors E_DEVICE, those of comm_wait */
enum status cp_ring_forward(struct cp_blocks *x);
enum status cp_ring_backward(struct cp_blocks *x);
/** Bill the messages with sums that a rank sends in backward: the elements of all, their type, and their number.
 *  @param out its axis and op are set; count, dtype and pieces are written */
void cp_ring_sums_sent(const struct cp_blocks *, struct exchange *out);

/* ---- shape and cost, for both ops ---- */
/** Zig-zag over cp: (B,T,3,H,D) to y (B,T,H,D) and lse (B,H,T). @errors E_CONFIG */
enum status cp_attention_shape(const struct call *, struct type out[MAX_OUT]);
/** Flops of this rank's rows of the (T,T) square, counted as attention counts the whole square. */
struct cost cp_attention_cost(const struct call *, enum row_kind);

#define CP_ATTENTION                                                                                                   \
    .rule = RULE_ATTENTION, .typing = TYPING_LOCAL_ACROSS, .mixes = "TD23", .shape = cp_attention_shape,               \
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(0) | OUT(1), .bi_weight = WEIGHT(0)},                              \
    .no_grad_out = OUT(1), .out_name = {[1] = "stat"}, .statistic_out = OUT(1), .has_backward_input = true,            \
    .weights_with_input = true,                                                                                        \
    .cost = cp_attention_cost, .pairs = cp_meetings
