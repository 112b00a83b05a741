/* Synthetic clicks, whose best possible AUC is known.
 *
 *   id      popularity rank floor((V + 1)^u) - 1 for a uniform u, so that the k-th most frequent row occurs about 1/k
 *           as often as the first; a permutation maps ranks to rows, so that frequent rows are not neighbors
 *   bag     1 to M ids
 *   dense   X standard normals
 *   label   1 with probability 1 / (1 + e^-logit), logit = bias + sum of a_k x_k + sum over all ids of c_f,id
 *
 * x_k: dense feature k. a_k: constants of alternating sign. c_f,id: normals, fixed by the seed. No model can order
 * samples better than this logit. Its AUC over the last tenth of the samples is in the file's header; it bounds an
 * evaluation with the default val-fraction of 0.1. Every number is a function of (seed, sample, place). */
#pragma once

#include "lib/data/clicks.h"

/** Write n samples to `path`. @param best_auc written: the header's  @errors E_IO, E_MEMORY, E_DATA: n is 0 */
enum status clicks_synth(const char *path, const struct clicks_layout *, int64_t n, uint64_t seed, double *best_auc);
