/* The time of a rank, by operation and by step of a layer. On the CPU a row is done when its function returns. On a GPU
 * the row is queued, and two events around it give its time after the step (lib/device/stopwatch.h). */
#pragma once

#include "lib/run/run.h"
#include <stdio.h>

/** Drop all times. Call it after a run's first step, which touches all memory and compiles the products' kernels. */
void profile_restart(struct run *);

/* A planner's prediction, in seconds per training step. row_s (n_steps, ROW_WAIT): of each step of the program and kind
 * of row; the caller owns it. update_s: of the update. */
struct profile_forecast { double (*row_s)[ROW_WAIT], update_s; };

/** Print a table. It has a row for each operation, largest first, and below it the operation's steps by the names of
 *  `show program`, largest first; the same step of all layers is one row ("h*.qkv", n: the number of layers). Columns:
 *  milliseconds forward (with replays), backward to the input, backward to the weights; share of the step; and flops
 *  per second (without the half that causal attention skips) or, without flops, bytes per second (op_cost). A kernel
 *  that runs two rows counts for the first row, with the cost of both. In forward its name is "a + b"; in backward both
 *  rows of a step count as backward to the weights. The last rows of the table are times outside operations.
 *  @param forecast fills one more column; NULL: no such column
 *  @param steps, step_s the number of timed steps, and the sum of their times */
void profile_print(const struct run *, int64_t steps, double step_s, const struct profile_forecast *forecast, FILE *);
