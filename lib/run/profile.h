/* Where a rank's time went, by operation. Only on the CPU, where a row is done when it has returned; on a GPU rows are queued,
 * and a profiler of its maker says more. */
#ifndef TRIVIUM_RUN_PROFILE_H
#define TRIVIUM_RUN_PROFILE_H

#include "lib/run/run.h"
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A table: an operation a row (all its steps together, largest first), milliseconds of a step forward (with replays), backward
 *  to the input, backward to the weights, share of the step; then what is no operation. Seconds: of all steps together.
 *  @param step_s the sum of the steps' times */
void profile_print(const struct run *, double step_s, FILE *);

#ifdef __cplusplus
}
#endif
#endif
