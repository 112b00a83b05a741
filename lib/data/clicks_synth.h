/* Clicks that are made, so that the best possible AUC is known.
 *
 *   id      row floor((V + 1)^u) - 1 of a uniform u: the k-th most frequent row comes about 1/k as often as the first,
 *           and the rows are dealt over the table by a permutation, so that neighbors are not frequent together
 *   bag     1 to M ids
 *   dense   X standard normals
 *   label   1 with probability 1 / (1 + e^-logit), logit = bias + sum of a_k x_k + sum over all ids of c_f,id
 *
 * a and c are normals, fixed by the seed. No model can order samples better than by this logit; its AUC over the last
 * tenth, with those samples' own labels, stands in the file's header, and is the bound for an evaluation with the
 * default val-fraction of 0.1. Every number is a function of (seed, sample, place). */
#pragma once

#include "lib/data/clicks.h"

/** Write n samples to `path`; *best_auc as in the header. @errors E_IO, E_MEMORY, E_DATA: n is 0 */
enum status clicks_synth(const char *path, const struct clicks_layout *, int64_t n, uint64_t seed, double *best_auc);
