/* Rotary position embedding: queries and keys are rotated by angles that grow with their position t, so that the
 * product of a query and a key depends on their distance. Channels i and i + D/2 of a head are one point in a plane:
 *
 *   angle = t theta^(-2 i / D)
 *   y[i]       = x[i] cos angle - x[i + D/2] sin angle
 *   y[i + D/2] = x[i + D/2] cos angle + x[i] sin angle             i = 0 .. D/2 - 1
 *
 * Backward rotates dy by -angle. Nothing is saved, and y may be x.
 *
 * in[0] x, queries (B,T,H,D), or keys and values (B,T,2,J,D): the keys are rotated, the values are copied
 * out[0] y, the same type   rule: theta (rules.h)
 *
 * t is the position in the whole sequence (axis_global), so a shard of T or of the heads has the angles of the whole. D
 * must be whole, and even. Angles and their cosines are computed in double for every dtype, because t may be large.
 *
 * The choice of pairs is a convention. GPT-NeoX and Llama's files on Hugging Face also pair i and i + D/2; the paper
 * pairs neighbors, 2 i and 2 i + 1. Source: Su et al. 2021 (RoFormer). */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_rope;

/** The largest D on CUDA, where a block keeps the angles of a position in shared memory. */
enum { ROPE_CUDA_MAX_D = 256 };

/** Sizes of a call: each position of each sample has `heads` heads of D channels; the first `turned` are rotated. */
struct rope_sizes { int64_t B, T, heads, turned, D; };
struct rope_sizes rope_sizes(const struct call *);

#ifdef __cplusplus
}
#endif
