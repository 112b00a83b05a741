/* Rotary position embedding: queries and keys are turned by an angle that grows with their position t, so that a
 * query's product with a key depends on how far they are apart. Channels i and i + D/2 of a head are one point in a
 * plane:
 *
 *   angle = t theta^(-2 i / D)
 *   y[i]       = x[i] cos angle - x[i + D/2] sin angle
 *   y[i + D/2] = x[i + D/2] cos angle + x[i] sin angle             i = 0 .. D/2 - 1
 *
 * Backward turns dy back: the same with -angle. Nothing is saved, and y may lie over x.
 *
 * in[0] x, queries (B,T,H,D), or keys and values (B,T,2,J,D): the keys are turned, the values are passed on
 * out[0] y, the same type   rule: theta (rules.h)
 *
 * t is the place in the whole sequence (axis_global), so any shard of T or of the heads turns as the whole would; D
 * must be whole, and even. Angles and their cosines are made in double, whatever the dtype: t may be large.
 *
 * Which channels are a pair is a convention; this one, halves, is that of GPT-NeoX and of Llama's files on Hugging
 * Face. The paper pairs neighbors, 2 i and 2 i + 1. Source: Su et al. 2021 (RoFormer). */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_rope;

/** The largest head on CUDA, where a block keeps the angles of a position. */
enum { ROPE_CUDA_MAX_D = 256 };

/** Sizes of a call: of each position of each sample, `turned` heads of D channels are turned, the first of `heads`. */
struct rope_sizes { int64_t B, T, heads, turned, D; };
struct rope_sizes rope_sizes(const struct call *);

#ifdef __cplusplus
}
#endif
