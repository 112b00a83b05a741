/* Predicted against measured (--cluster): how well does the planner's model tell strategies apart here?
 *
 *   noise    how far passes of one strategy lie apart, the median over strategies (--repeat)
 *   pairs    two strategies whose measured steps differ by more than twice the noise; in order: the model says the same
 *            one is the faster
 *   regret   the extra time of the strategy that the model calls the fastest, over the fastest measured
 *   errors   |predicted / measured - 1|, the median: of the step, and of the work of all ranks in processor seconds,
 *            which does not depend on other programs */
#pragma once

#include "driver/compare/compare_row.h"
#include "lib/cost/cluster.h"
#include "lib/run/plan.h"
#include <stdio.h>

struct compare_forecast { int n, pairs, in_order; double noise, regret, step_error, work_error; };

/** Fill in a row's predicted times; without a prediction they stay 0, with a warning. @param plan settled
 *  @param uneven a pp-split was given  @collective{none} */
void compare_predict(const struct plan *plan, const struct cluster *, bool uneven, struct compare_row *);
/** Rows without a prediction are left out. Pure. */
struct compare_forecast compare_forecast_of(const struct compare_row *, int n_rows);
/** Two sentences; nothing without two rows that are predicted. */
void compare_forecast_print(FILE *, const struct compare_row *, int n_rows);
