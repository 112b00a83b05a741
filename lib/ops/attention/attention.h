/* Attention. For each sample b and head h, with its queries, keys and values q, k, v (T,D):
 *
 *   s[t,j] = q[t] . k[j] / sqrt(D) for j <= t     p[t,j] = e^(s[t,j] - lse[t])     lse[t] = log sum_j e^s[t,j]
 *   y[t] = sum_j m[t,j] p[t,j] v[j]               m = 0 or 1/(1-p_drop): dropout on probabilities (dropout.h)
 *
 * That is causal attention; with attention.mask MASK_FULL every query sees all keys, j < T. Of T5: `unscaled` leaves
 * out 1 / sqrt(D); a weight is a bias by relative position (attention_bias.h), added to s; and with `cross` keys and
 * values are of another sequence, of another length Tk, which every query sees whole.
 *
 * Backward, with delta[t] = sum_j m p (dy[t] . v[j]) = dy[t] . y[t]:
 *   ds[t,j] = p[t,j] (m[t,j] dy[t] . v[j] - delta[t])
 *   dq[t] = sum_j ds[t,j] k[j] / sqrt(D)    dk[j] = sum_t ds[t,j] q[t] / sqrt(D)    dv[j] = sum_t m[t,j] p[t,j] dy[t]
 *
 * in[0] qkv (B,T,3,H,D)                          every head has keys of its own
 * in[0] q (B,T,H,D)   in[1] kv (B,T,2,J,D)       H/J heads share each of J key heads: head h reads key head h / (H/J)
 *                                                cross: kv (B,Tk,2,J,D)
 * weight[0] bias (R,H), or none
 * out[0] y (B,T,H,D)
 *
 * Heads may be a shard; the sequence must be whole. Sharing makes what is kept of the past to generate from J/H as
 * large (attention_cached.h); a shared dk or dv is the sum over its heads. Source: Shazeer 2019; Ainslie et al. 2023
 * (grouped-query attention).
 *
 * Two ops, one function:
 *
 *   materialised   out[1] p (B,H,T,T). The formulas as they stand. Saves T numbers for each query and head: quadratic
 *                  in T. A step that stores its dropout also has out[2] the mask, uint8, and out[3] m p, both
 *                  (B,H,T,T): what an implementation by separate softmax, dropout and product saves (Korthikanti et al.
 *                  2022, section 4.1). Otherwise backward makes them again, rounded as they would have been.
 *   blocked        out[1] lse (B,H,T). Works on tiles of keys with a running maximum and sum, and computes p again
 *                  from lse in backward: nothing of size T x T exists, so its mask is always drawn again. Source: Dao
 *                  et al. 2022 (FlashAttention), Dao 2023; Milakov and Gimelshein 2018 for the running softmax.
 *
 * Flops are counted for the full T x T square, as the MFU formula's 12 L C T does: forward 4 T C a token, backward 8. A
 * kernel does about half of that where it is causal; the blocked backward makes s once more, which is not counted (it
 * is recomputation). */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_attention_blocked, op_attention_materialised;

/** Sizes of a call, from in[0] and in[1]. */
struct attention_sizes {
    int64_t B, T, Tk, H, D, J; /* T of the queries, Tk of the keys; J: heads of keys; H where none is shared */
    int64_t row, key_row;     /* elements from one position of the queries to the next, and of keys and values */
    int64_t first_head;       /* global index of head 0 */
    double scale;             /* 1 / sqrt(D); unscaled: 1 */
};
struct attention_sizes attention_sizes(const struct call *);
/** Does every query see no later key? */
static inline bool attention_is_causal(const struct call *c) { return c->step->attention.mask == MASK_CAUSAL; }
/** Flops of attention by tiles. pairs: queries x keys x channels of all heads. What a causal mask hides counts, as in
 *  the MFU formula, and is left out; backward makes the scores again, which does not count. */
void attention_cost(struct cost *, const struct call *, enum row_kind, double pairs);
/** Queries, keys and values fit together; their T may be sharded. @errors E_CONFIG */
enum status attention_check(const struct call *);
/** y (B,T,H,D), and lse (B,H,T) in the accumulator's dtype, of a call that passed it. */
struct type attention_out(const struct call *);
struct type attention_lse(const struct call *);

/** Heads that share keys are worked on in turn, others in parallel: how many threads have scratch, and how many reals
 *  each. A thread's last real is written in every row, so that the planned bytes are the touched ones. */
int attention_threads(const struct call *);
int64_t attention_materialised_reals(const struct call *, enum row_kind);

/** Scratch of our own kernels on CUDA: delta (B,H,T), in backward. All else is in shared memory. */
int64_t attention_delta_bytes(const struct call *, enum row_kind);

/** Keys and queries in a tile of the blocked kernels; a multiple of 4, so that a tile starts a Philox block. */
enum { ATTENTION_TILE = 64 };

/* Does the CPU that is compiled for multiply pairs of bf16? Then bf16 attention does (attention_dots_cpu.c). */
#ifdef __AVX512BF16__
#define ATTENTION_DOTS 1
#else
#define ATTENTION_DOTS 0
#endif

/** The largest head on CUDA, where tiles of vectors lie in shared memory, and sums over them in registers. */
enum { ATTENTION_CUDA_MAX_D = 256 };
