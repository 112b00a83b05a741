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
 * is written by a forward row. Memory after the newest position is never read. Forward only, on the CPU; no dropout. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_attention_cached;

/** The type of the cache of a step whose last input has the type `keys`: qkv (B,T,3,H,D) or kv (B,T,2,J,D). The cache
 *  has the same heads (which may be a shard), and T whole. */
struct type attention_cache_type(const struct type *keys);
