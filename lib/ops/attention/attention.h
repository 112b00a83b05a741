/* Causal self-attention. For each sample b and head h, with q, k, v (T,D) the three parts of in[0]:
 *
 *   s[t,j] = q[t] . k[j] / sqrt(D) for j <= t     p[t,j] = e^(s[t,j] - lse[t])     lse[t] = log sum_j e^s[t,j]
 *   y[t] = sum_j m[t,j] p[t,j] v[j]               m = 0 or 1/(1-p_drop): dropout on probabilities (dropout.h)
 *
 * Backward, with delta[t] = sum_j m p (dy[t] . v[j]) = dy[t] . y[t]:
 *   ds[t,j] = p[t,j] (m[t,j] dy[t] . v[j] - delta[t])
 *   dq[t] = sum_j ds[t,j] k[j] / sqrt(D)    dk[j] = sum_t ds[t,j] q[t] / sqrt(D)    dv[j] = sum_t m[t,j] p[t,j] dy[t]
 *
 * in[0] qkv (B,T,3,H,D)   out[0] y (B,T,H,D)   Heads may be a shard; the sequence must be whole.
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
 * causal kernel does about half of that; the blocked backward makes s once more, which is not counted (it is
 * recomputation). */
#ifndef TRIVIUM_OPS_ATTENTION_H
#define TRIVIUM_OPS_ATTENTION_H

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_attention_blocked, op_attention_materialised;

/** Sizes of a call, from in[0]. */
struct attention_sizes {
    int64_t B, T, H, D;
    int64_t row;              /* elements from one position of qkv to the next: 3 H D */
    int64_t first_head;       /* global index of head 0 */
    double scale;             /* 1 / sqrt(D) */
};
struct attention_sizes attention_sizes(const struct call *);

/** Heads are worked on in parallel: how many threads have scratch, and how many reals each. A thread's last real is
 * written in every row, so that the planned bytes are the touched ones. */
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

/** Whose kernels will run the blocked op on CUDA, in words, as far as can be told without a GPU. Borrowed, until the
 *  next call. */
const char *attention_core_text(enum attention_core, enum dtype, int64_t T, int64_t D, double dropout);

/** The largest head on CUDA, where a tile of vectors lies in shared memory. */
enum { ATTENTION_CUDA_MAX_D = 128 };

#ifdef __cplusplus
}
#endif
#endif
