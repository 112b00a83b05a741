/* The experts of each token, and the choices that are dropped: the contract of this exercise.
 *
 *     logits (tokens, E)      scores of each expert for a token
 *     choices (tokens, k)     the k experts of each token, the best first
 *     places (tokens, k)      a choice's place at its expert, 0 .. S - 1; PLACES_DROPPED: the choice is dropped
 *
 * Tokens form consecutive groups of g: tokens 0 .. g - 1 are one group, g .. 2 g - 1 the next. Only choices of the same
 * group compete. An expert has S places for each group. */
#pragma once

#include "lib/base/status.h"
#include <math.h>
#include <stdint.h>

enum { PLACES_DROPPED = -1, PLACES_MAX_EXPERTS = 64 };

struct places_rule { int64_t experts, k, group, places; };   /* E (at most PLACES_MAX_EXPERTS), k, g, S */

/* ---- given ---- */

/** P = softmax of the logits of one token. */
static inline void places_softmax(const double *logits, int64_t experts, double *P) {
    double most = logits[0], sum = 0;
    for (int64_t e = 1; e < experts; e++) most = fmax(most, logits[e]);
    for (int64_t e = 0; e < experts; e++) sum += P[e] = exp(logits[e] - most);
    for (int64_t e = 0; e < experts; e++) P[e] /= sum;
}

/* ---- to be written, in places.c ---- */

/** *places = S = min(g, ceil(capacity g k / E)). With capacity 0, S = g, and no choice is ever dropped. */
enum status places_per_expert(double capacity, int64_t group, int64_t k, int64_t experts, int64_t *places);

/** The experts of one token: choices[0 .. k-1] have the k largest logits, the largest first. Of equal logits the expert
 *  with the lower number comes first. k <= experts. */
enum status places_choose(const double *logits, int64_t experts, int64_t k, int32_t *choices);

/** A place for each choice of `tokens` tokens, a multiple of g. In each group all first choices get places before all
 *  second choices, and so on; among first choices lower positions come first. Choice i of an expert (i = 0, 1, ...) in
 *  this order has place i if i < S; otherwise it is dropped. *dropped = the number of dropped choices in all groups. */
enum status places_give(const struct places_rule *, int64_t tokens, const int32_t *choices, int32_t *places,
                        int64_t *dropped);

/** The load loss of these tokens, with weight 1: the sum over groups of
 *
 *      E g / N  sum_e f_e p_e        f_e = choices of e in the group / (g k), with dropped ones
 *                                    p_e = the mean of P_e over the tokens of the group
 *
 *  N = all_tokens, the number of tokens in the whole batch on all ranks. */
enum status places_load_loss(const struct places_rule *, int64_t tokens, int64_t all_tokens, const double *logits,
                             const int32_t *choices, double *loss);
