/* Choosing the next token: a pure function of the scores, the seed and the position.
 *
 *   p[v] = e^(l[v] / T) / sum over the candidates         T: temperature. Candidates: the k tokens of highest scores
 *   token = the first v with  u < p[0] + ... + p[v]       u: uniform in (0, 1), drawn by (seed, sequence, position)
 *
 * As T goes to 0 only the highest score remains; T = 0 means this score, without a draw. As T goes to infinity all
 * candidates become equally likely. Among equal scores the lowest token comes first.
 * Sums are in fp64, in the order of the tokens, so ranks with equal scores choose the same token. So do
 * ranks of another layout, unless its rounding moves a score across a draw. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/* temperature >= 0; top_k 0: every token is a candidate. */
struct sampling { double temperature; int64_t top_k; uint64_t seed; };

/** weights[v] = e^((l[v] - max) / T) of the candidates, 0 of the others: p times a common factor. T > 0, n >= 1.
 *  @param logits (n) finite    @param weights (n) written    @return their sum */
double sample_weights(const struct sampling *, const double *logits, int64_t n, double *weights);

/** The first token at which the running sum of the weights exceeds u x sum. weights: (n), from sample_weights.
 *  u in [0, 1). */
int32_t sample_pick(const double *weights, int64_t n, double sum, double u);

/** Choose the token at a position (from 0) of a sequence. Each sequence and position has its own draw.
 *  @param logits (n)   @param weights (n) scratch   @errors E_NUMERIC: a score that is not finite  @collective{none} */
enum status sample_token(const struct sampling *, const double *logits, int64_t n, int64_t sequence, int64_t position,
                         double *weights, int32_t *token);
