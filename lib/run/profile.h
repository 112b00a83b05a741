/* Where a rank's time went, by operation and by step of a layer. On the CPU a row is done when it has returned; on a
 * GPU it is only queued, and two events around it tell its time when the step is done (lib/device/stopwatch.h). */
#ifndef TRIVIUM_RUN_PROFILE_H
#define TRIVIUM_RUN_PROFILE_H

#include "lib/run/run.h"
#include <stdio.h>

/** Forget what has been noted. After a run's first step, which touches all memory and compiles the products'
 *  kernels. */
void profile_restart(struct run *);

/* What a planner says of the same: seconds a step, of each step of the program and kind of row; and of the update.
 * row_s (n_steps, ROW_WAIT), owned by its maker. */
struct profile_forecast { double (*row_s)[ROW_WAIT], update_s; };

/** A table: an operation a row, largest first, and below it its steps of the program by the names that `show program`
 *  has for them, largest first; the same step of all layers is one row ("h*.qkv"), n: of how many. Milliseconds of a
 *  step forward (with replays), backward to the input, backward to the weights, share of the step; how much a second
 *  its rows computed (flops that are done; half of causal attention's are not) or, if nothing that counts, moved
 *  (op_cost). A kernel that runs two rows is the first's, with the cost of both: a row forward is then "a + b"; one
 *  that runs both rows of a step's backward is in the column of the weights. Last, what is no operation.
 *  @param forecast one column more; NULL: none
 *  @param steps, step_s how many steps were noted, and the sum of their times */
void profile_print(const struct run *, int64_t steps, double step_s, const struct profile_forecast *forecast, FILE *);

#endif
