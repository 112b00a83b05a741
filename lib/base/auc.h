/* The area under the ROC curve, exactly: the probability that a click scores higher than a sample without one, where
 * equal scores count half:
 *
 *   AUC = sum over clicks of (others that score lower + half of those that score the same) / (clicks x others)
 *
 * Every score is kept and sorted: no histogram. Source: Hanley and McNeil 1982. */
#pragma once

#include <stdint.h>

struct score { double score, label; };   /* label 1: a click; 0: none */

/** The AUC of n scores, which this function sorts. NaN where there are no clicks, or nothing else, or a
 *  score is NaN. */
double auc_of(struct score *, int64_t n);
