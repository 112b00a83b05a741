/* Attention. For each sample b and head h, with its queries, keys and values q, k, v (T,D):
 *
 *   s[t,j] = q[t] . k[j] / sqrt(D) for j <= t     p[t,j] = e^(s[t,j] - lse[t])     lse[t] = log sum_j e^s[t,j]
 *   y[t] = sum_j m[t,j] p[t,j] v[j]               m = 0 or 1/(1-p_drop): dropout on probabilities (dropout.h)
 *
 * That is causal attention. With a window W a query sees itself and the W - 1 keys before it, j > t - W; kernels leave
 * out the tiles that no query sees (attention_pair.h has the bounds). With a cap c a score is c tanh(s / c), and its
 * gradient has a factor 1 - tanh^2. With sinks each head has one more, learned score z, of a key with value 0:
 *
 *   lse[t] = log(e^z + sum_j e^s[t,j])     dz = - sum_t e^(z - lse[t]) delta[t]
 *
 * With attention.mask MASK_FULL every query sees all keys, j < T. T5 needs three options: `unscaled` leaves out
 * 1 / sqrt(D); a weight is a bias by relative position (attention_bias.h), which is added to s; with `cross` keys and
 * values come from another sequence of Tk positions, and every query sees all of them. `factor` multiplies s (YaRN of
 * DeepSeek, models/mla/).
 *
 * Backward, with delta[t] = sum_j m p (dy[t] . v[j]) = dy[t] . y[t]:
 *   ds[t,j] = p[t,j] (m[t,j] dy[t] . v[j] - delta[t])
 *   dq[t] = sum_j ds[t,j] k[j] / sqrt(D)    dk[j] = sum_t ds[t,j] q[t] / sqrt(D)    dv[j] = sum_t m[t,j] p[t,j] dy[t]
 *
 * in[0] qkv (B,T,3,H,D)                          every head has its own keys; or
 * in[0] q (B,T,H,D)   in[1] kv (B,T,2,J,D)       H/J heads share each of J key heads: head h reads head h / (H/J)
 *                                                cross: kv (B,Tk,2,J,D)
 * weight[0] bias (R,H), or sinks z (H), or none  out[0] y (B,T,H,D)
 *
 * Heads may be a shard; the sequence must be whole. Sharing shrinks the key-value cache to J/H of its size
 * (attention_cached.h); a shared dk or dv is the sum over its heads. Source: Shazeer 2019; Ainslie et al. 2023
 * (grouped-query attention).
 *
 * Two ops, one function:
 *
 *   materialised   out[1] p (B,H,T,T). The formulas as they stand. Saves T numbers for each query and head: quadratic
 *                  in T. A step that stores its dropout also has out[2] the mask, uint8, and out[3] m p, both
 *                  (B,H,T,T), as separate ops for softmax, dropout and product save them (Korthikanti et al. 2022,
 *                  section 4.1). Otherwise backward computes both again, with the same rounding.
 *   blocked        out[1] lse (B,H,T). Works on tiles of keys with a running maximum and sum, and computes p again
 *                  from lse in backward: nothing of size T x T exists, so its mask is always drawn again. Source: Dao
 *                  et al. 2022 (FlashAttention), Dao 2023; Milakov and Gimelshein 2018 for the running softmax.
 *
 * Flops are counted for the full T x T square, as the MFU formula's 12 L C T does: forward 4 T C a token, backward 8. A
 * causal kernel does about half of that. With a window they are counted for W keys of every query. The blocked backward
 * recomputes s, which is not counted.
 *
 * Sources. Windows: Child et al. 2019; Beltagy et al. 2020 (Longformer); Jiang et al. 2023 (Mistral 7B), section 2.
 * Caps: Gemma Team 2024 (Gemma 2), section 2. Sinks: Xiao et al. 2023; OpenAI 2025 (gpt-oss), section 2. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_attention_blocked, op_attention_materialised;

/** Sizes of a call, from in[0] and in[1]. */
struct attention_sizes {
    int64_t B, T, Tk, H, D, J; /* T: queries; Tk: keys; J: key heads, J = H where no heads share keys */
    int64_t row, key_row;     /* elements between two positions of the queries; of the keys and values */
    int64_t first_head;       /* global index of head 0 */
    double scale;             /* 1 / sqrt(D), or 1 with `unscaled`; times `factor` */
};
struct attention_sizes attention_sizes(const struct call *);
/** Is every key after a query hidden from it? */
static inline bool attention_is_causal(const struct call *c) { return c->step->attention.mask == MASK_CAUSAL; }
/** Flops of attention by tiles. queries: (query, channel) pairs of all heads; keys: of the whole sequence. flops counts
 *  the full square, or with a window its keys for every query, as the MFU formula does. left_out is the work that a
 *  causal mask saves, less the scores that backward recomputes. */
void attention_cost(struct cost *, const struct call *, enum row_kind, double queries, double keys);
/** The most keys that a query sees, of `keys` keys. */
static inline double attention_keys_of(const struct call *c, double keys) {
    double window = (double)c->step->attention.view.window;
    return window > 0 && window < keys ? window : keys;
}
/** Check that queries, keys and values fit together; their axis T may be sharded. @errors E_CONFIG */
enum status attention_check(const struct call *);
/** Check the weight of the sinks, if there are any, of these heads. @errors E_CONFIG */
enum status attention_check_sinks(const struct call *, const struct axis *heads);
/** Types of y (B,T,H,D), and of lse (B,H,T) in the accumulator's dtype. The call has passed attention_check. */
struct type attention_out(const struct call *);
struct type attention_lse(const struct call *);

/** The number of threads with scratch, and the reals of scratch for each. Heads that share keys run in turn on one
 *  thread, all others in parallel. Every row writes a thread's last real, so that the planned bytes are the touched
 *  ones. */
int attention_threads(const struct call *);
int64_t attention_materialised_reals(const struct call *, enum row_kind);

/** Bytes of scratch of our own kernels on CUDA: delta (B,H,T), in backward. All other scratch is shared memory. */
int64_t attention_delta_bytes(const struct call *, enum row_kind);

/** Keys or queries in a tile of the blocked kernels. A multiple of 4, so that each tile starts a Philox block. */
enum { ATTENTION_TILE = 64 };

/* Can the target CPU multiply pairs of bf16? Then attention in bf16 uses these instructions (attention_dots_cpu.c). */
#ifdef __AVX512BF16__
#define ATTENTION_DOTS 1
#else
#define ATTENTION_DOTS 0
#endif

/** The most channels of a head on CUDA: its tiles of vectors are in shared memory, and its sums in registers. */
enum { ATTENTION_CUDA_MAX_D = 256 };
