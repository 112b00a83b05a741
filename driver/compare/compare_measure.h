/* Training a strategy's steps and measuring them. */
#pragma once

#include "driver/compare/compare_row.h"

/** Steps that are run and not timed: min(2, steps / 4). Caches, MPI's connections and page tables are cold in the
 *  first. */
int64_t compare_warmup(int64_t n_steps);

/** The median: of an even number the mean of the two in the middle. Sorts seconds[0..n), n >= 1. */
double compare_median(double *seconds, int64_t n);

/** Train plan.steps steps of an opened run (WATCH_PEAKS or more). Fills *mine, and of the row what is measured on every
 *  rank: steps, step time, loss. trace (NULL: none) has room for COMPARE_TRACED steps: the first ones that are timed
 *  are recorded, and gathered into row->trace at rank 0. What that sends and waits is not counted.
 *  @collective{mesh} @errors of run_step; E_MEMORY */
enum { COMPARE_TRACED = 4 };
enum status compare_measure(struct run *, struct trace *, struct compare_row *, struct compare_rank *mine);
