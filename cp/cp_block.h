/* A rank's queries and the keys of one rank after the other: what the ring (cp_ring.c) and the gather (cp_gather.c)
 * have in common. */
#pragma once

#include "lib/ops/attention/attention_pair.h"

/* A block: keys and values of a rank, (2,B,T/cp,J,D), dense; its gradients are reals of that shape. The ring has two
 * blocks and two of gradients, used in turns; the gather one block per rank, and one more of gradients. */
struct cp_blocks {
    const struct call *call;
    struct attention_pair pair;          /* of the rank's own queries; a meeting sets which keys they see */
    const struct attention_pair_kernels *k;
    int n, n_sums;                       /* number of blocks, and of blocks of gradients, in memory at a time */
    int64_t count, bytes, sum_bytes;     /* of a block: elements, bytes, bytes of its gradients */
    int64_t queries;                     /* elements of the rank's queries */
    char *blocks, *sums;                 /* [n] and, in backward, [n_sums] */
    void *dq;                            /* reals (B,T/cp,H,D), in backward */
    struct attention_merge merge;        /* in forward */
};

/** For a call without memory: sizes only. */
struct cp_blocks cp_blocks_of(const struct call *, int n, int n_sums);
int64_t cp_blocks_work(const struct call *, int n, int n_sums, bool backward);
/** With the call's memory, nothing met yet. @errors E_DEVICE, as all below  @collective{none} */
enum status cp_blocks_begin(struct cp_blocks *, const struct call *, int n, int n_sums, bool backward);
/** n blocks' gradients from `sums` on are 0. @errors E_DEVICE */
enum status cp_clear_sums(const struct cp_blocks *, char *sums, int n);

/** The rank `by` further in the ring. */
int cp_peer(const struct call *, int by);
static inline char *cp_block(const struct cp_blocks *x, int i) { return x->blocks + (i % x->n) * x->bytes; }
static inline char *cp_sums(const struct cp_blocks *x, int i) { return x->sums + (i % x->n_sums) * x->sum_bytes; }

/* A meeting is with the rank's own keys, with those of an earlier rank, or of a later one. */
/** One pair of each kind that the call has, at most ATTENTION_PAIRS, without memory. @return how many */
int cp_meetings(const struct call *, bool backward, struct attention_pair *out);

/** Own keys and values into a block. @errors E_DEVICE */
enum status cp_pack_own(const struct cp_blocks *, char *block);
/** What the queries find at rank `other`, whose keys are in `block`: merged. @errors E_DEVICE  @collective{none} */
enum status cp_meet(struct cp_blocks *, int other, char *block);
/** Gradients of the same meeting: added to dq and to `sums`. @errors E_DEVICE  @collective{none} */
enum status cp_meet_backward(struct cp_blocks *, int other, char *block, char *sums);
/** y and lse of all meetings / the gradients of the inputs. @errors E_DEVICE */
enum status cp_finish(const struct cp_blocks *);
enum status cp_finish_backward(const struct cp_blocks *, char *own_sums);

/* ---- what both ops declare ---- */
/** Zig-zag over cp: (B,T,3,H,D) to y (B,T,H,D) and lse (B,H,T). @errors E_CONFIG */
enum status cp_attention_shape(const struct call *, struct type out[MAX_OUT]);
/** Flops of the whole sequence's square, as attention counts it: this rank's rows. */
struct cost cp_attention_cost(const struct call *, enum row_kind);

#define CP_ATTENTION                                                                                                   \
    .rule = RULE_ATTENTION, .typing = TYPING_LOCAL_ACROSS, .mixes = "TD23", .shape = cp_attention_shape,               \
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(0) | OUT(1)},                                                      \
    .no_grad_out = OUT(1), .out_name = {[1] = "stat"}, .statistic_out = OUT(1), .has_backward_input = true,            \
    .cost = cp_attention_cost, .pairs = cp_meetings
