/* The exact area under the ROC curve: the probability that a click scores higher than a sample without a click.
 * A pair with equal scores counts half.
 *
 *   AUC = sum over clicks of (L + E / 2) / (clicks x non-clicks)       L, E: non-clicks with a lower, an equal score
 *
 * Every score is kept and sorted: no histogram. Source: Hanley and McNeil 1982. */
#pragma once

#include <stdint.h>

struct score { double score, label; };   /* label 1: a click; 0: none */

/** The AUC of n scores. Sorts the array. @return NaN if the samples have no clicks or only clicks, or if a score is
 *  NaN */
double auc_of(struct score *, int64_t n);
