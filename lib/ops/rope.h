/* Rotary position embedding: queries and keys are rotated by angles that grow with their position t, so that the
 * product of a query and a key depends on their distance. Channels i and i + D/2 of a head are one point in a plane:
 *
 *   angle = t speed[i]     speed[i] = theta^(-2 i / D)
 *   y[i]       = x[i] cos angle - x[i + D/2] sin angle
 *   y[i + D/2] = x[i + D/2] cos angle + x[i] sin angle             i = 0 .. D/2 - 1
 *
 * Backward rotates dy by -angle. Nothing is saved, and y may be x.
 *
 * in[0] x, queries (B,T,H,D), or keys and values (B,T,2,J,D): the keys are rotated, the values are copied; or one key
 * for all heads (B,T,D) (mla.h)
 * out[0] y, the same type   rule: rope_rule (rules.h)
 *
 * rule.first: a head's channels before it are copied, and D above counts those from it on. rule.neighbors: a pair is
 * channels 2 i and 2 i + 1.
 *
 * t is the position in the whole sequence (axis_global), so a shard of T or of the heads has the angles of the whole. D
 * must be whole, and even. Angles and their cosines are computed in double for every dtype, because t may be large.
 *
 * A model that reads longer texts than it was first trained with, `context` tokens, has its pairs slowed, all or those
 * that turn around few times in a context, r = context speed[i] / 2 pi:
 *
 *   linear   speed / factor
 *   llama3   speed (1 - k + k / factor): k = 1 where r < slow, 0 where r > fast, and in between it falls evenly with r
 *   yarn     the same, but k falls evenly with i, from the last whole i whose r >= fast to the first whose r <= slow;
 *            and cosines and sines are multiplied by `attention`
 *   yarn-untruncated   the same, but k falls from the real i whose r is fast to that whose r is slow (GPT-OSS)
 *
 * The choice of pairs is a convention. GPT-NeoX and Llama's files on Hugging Face also pair i and i + D/2; the paper
 * and DeepSeek pair neighbors. Source: Su et al. 2021 (RoFormer); Chen et al. 2023
 * (linear); Peng et al. 2023 (YaRN); Grattafiori et al. 2024 (Llama 3), and transformers, modeling_rope_utils.py. */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_rope;

/** The largest D on CUDA, where a block keeps the angles of a position in shared memory. */
enum { ROPE_CUDA_MAX_D = 256 };

/** Sizes of a call: each position of each sample has `heads` heads of D channels; the first `turned` are rotated. Of
 *  their channels `pairs` pairs from channel `first` on turn: pair i is channel first + i step and the one `apart`
 *  after it. */
struct rope_sizes { int64_t B, T, heads, turned, D, first, pairs, step, apart; };
struct rope_sizes rope_sizes(const struct call *);

/** Compute speed[i] of `half` pairs, D / 2. Pure. */
void rope_speeds(const struct rope_rule *, int64_t half, double *speed);
/* ---- a rule as a text (rope_rule.c): none, linear:FACTOR, llama3:FACTOR:CONTEXT[:LOW:HIGH],
 * yarn:FACTOR:CONTEXT[:SLOW:FAST[:ATTENTION]], yarn-untruncated likewise ---- */
/** Read the text into the rule, whose theta stays. @errors E_CONFIG */
enum status rope_rule_read(const char *text, struct rope_rule *);
/** Write the rule as a text; numbers that are the usual ones are left out. Pure. */
void rope_rule_write(const struct rope_rule *, char *text, size_t size);
/** The enum rope_scaling of a name of `length` bytes; -1: none has it. Pure. */
int rope_scaling_of(const char *name, size_t length);
/** YaRN's usual factor of cosines and sines: 0.1 scale ln(factor) + 1, with scale 1; at least 1. Pure. */
double rope_yarn_attention(double factor, double scale);

/** The factor of cosines and sines. */
static inline double rope_attention(const struct rope_rule *r) { return r->attention > 0 ? r->attention : 1; }

#ifdef __cplusplus
}
#endif
