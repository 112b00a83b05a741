/* Causal self-attention of a few new tokens over all tokens before them, whose keys and values are in the key-value
 * cache.
 *
 * in[0] holds positions first .. first + n - 1 of the sequence (its T axis says so). First their keys and values are
 * written into the cache; then, for each sample b and head h, the query of position t attends to the cached keys 0 ..
 * t:
 *
 *   s[j] = q[t] . k[j] / sqrt(D) for j <= t
 *   p[j] = e^(s[j] - max s) / sum_j e^(s[j] - max s)     y[t] = sum_j p[j] v[j]
 *
 * That is row t of attention.h's formula. Keys and values of a position never change, because no position sees a later
 * one. So a new token costs O(t) products instead of the O(t^2) of the whole sequence, and no layer computes an earlier
 * token again.
 *
 * in[0], in[1] as in attention.h, T a part of the sequence   out[0] y (B,T,H,D)
 * weight[0] the cache (2,B,J,T,D), T whole, J the key heads: keys, then values
 *
 * In the cache a head's positions follow one another, so that a query reads memory from front to end. No other weight
 * is written by a forward row. Memory after the newest position is never read. Forward only, on the CPU; no dropout.
 *
 * attention_latent: a cache of latents (lib/ops/mla.h). A position has one row, [c ; s], which is the key of all heads,
 * and whose first L channels are their value. The queries are absorbed ones; the outputs, means of latents, are
 * expanded behind it. If heads are a shard, each rank has the whole cache:
 *
 *   s[h,j] = factor q[t,h] . [c[j] ; s[j]]       o[t,h] = sum_j p[h,j] c[j]       2 (A + L) flops for each head and key
 *
 * in[0] q (B,T,H,A)   in[1] c (B,T,L)   in[2] s (B,T,S)   A = L + S         out[0] o (B,T,H,L)
 * weight[0] the cache (B,T,A), T whole. The rule is `unscaled`, with 1 / sqrt(D) of a key's D channels in `factor`. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_attention_cached, op_attention_latent;

/** The type of the cache of a step whose last input has the type `keys`: qkv (B,T,3,H,D) or kv (B,T,2,J,D). The cache
 *  has the same heads (which may be a shard), and T whole. */
struct type attention_cache_type(const struct type *keys);
/** The type of the cache of latents of the types c (B,T,L) and s (B,T,S). */
struct type attention_latent_cache_type(const struct type *c, const struct type *s);
/** Threads of attention_latent, each with scratch for a row of scores. */
static inline int attention_latent_threads(const struct call *call) {
    const struct axis *q = call->in[0].type->shape.axis;
    int64_t heads = q[0].n * q[2].n;
    return (int)(call->n_threads < heads ? call->n_threads : heads);
}
