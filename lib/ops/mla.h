/* The moves of multi-head latent attention (models/llama/mla/mla.h has the formulas): a product's channels to where the
 * next step reads them. No number changes, but a gradient that is a sum. Last, the two products of decoding.
 *
 *   split    in[0] x (B,T,A)   out[0] c (B,T,L)   out[1] s (B,T,S)          x = [c ; s], A = L + S
 *   keys     in[0] x (B,T,J,W)   in[1] s (B,T,S)   out[0] kv (B,T,2,J,D)    x = [n ; v] of each head, W = N + U
 *            k = [n ; s], D = N + S: every head has the same s. The values are [v ; 0]
 *            backward: ds = sum_j dk[j]'s last S channels
 *   values   in[0] y (B,T,H,D)   out[0] u (B,T,H,U)                         u = the first U channels; dy = [du ; 0]
 *
 * A head's value has U channels and its key D, and attention.h's kernels have one width for both: values are filled up
 * with D - U zeros, so their outputs end with zeros, too, which `values` drops. The cost: attention multiplies 2 D
 * numbers for each query and key, not D + U (DeepSeek: 384, not 320), and kv has 2 D for each head and token.
 * FlashAttention 2 needs the same, and transformers pads for it.
 *
 * If heads are a shard, s is whole, and ds is this rank's part of the sum.
 *
 * Decoding keeps c and s of each token, not its keys and values (attention_cached.h). A head's rows of W are W_k (N,L)
 * and W_v (U,L), and its products with all tokens' c go to the new token's query and to the mean of latents o instead:
 *
 *   q . k[j] = [W_k^T n ; t] . [c[j] ; s[j]]   q = [n ; t]          sum_j p[j] v[j] = W_v o   o = sum_j p[j] c[j]
 *
 *   absorb   in[0] q (B,T,H,D)   weight[0] W (J,W,L)   out[0] (B,T,H,A)     [W_k^T n ; t]
 *   expand   in[0] o (B,T,H,L)   weight[0] W (J,W,L)   out[0] u (B,T,H,U)   W_v o
 *
 * Together 2 (N + U) L flops for each head and token, as W c has. Forward only, on the CPU.
 *
 * rule: mla_rule (rules.h)   Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1; 2.1.2 says that W_k and W_v can be
 * absorbed. */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_mla_split, op_mla_keys, op_mla_values, op_mla_absorb, op_mla_expand;

/* Sizes of a call: tokens, heads on this rank, and the letters above; before: N. */
struct mla_sizes { int64_t n, heads, latent, shared, value, before, D; };
static inline struct mla_sizes mla_sizes(const struct call *call) {
    const struct shape *x = &call->in[0].type->shape;
    const struct mla_rule *r = &call->step->mla;
    struct mla_sizes s = {x->axis[0].n * x->axis[1].n, x->n_axes == 4 ? x->axis[2].n : 1, r->latent, 0, r->value, 0, 0};
    int64_t width = x->axis[x->n_axes - 1].n;
    if (x->n_axes == 3) s.shared = width - s.latent;
    else if (call->step->n_in == 1) s.D = width;
    else {
        s.shared = call->in[1].type->shape.axis[2].n;
        s.before = width - s.value;
        s.D = s.before + s.shared;
    }
    return s;
}

/* Sizes of absorb and expand, with the letters above. */
struct mla_product { int64_t n, heads, L, N, U, S; };
static inline struct mla_product mla_product(const struct call *call) {
    const struct axis *x = call->in[0].type->shape.axis, *w = call->weight[0].type->shape.axis;
    int64_t U = call->step->mla.value, N = w[1].n - U;
    struct mla_product s = {x[0].n * x[1].n, x[2].n, w[2].n, N, U, x[3].n - N};
    return s;
}

#ifdef __cplusplus
}
#endif
