/* Predicted against measured (--cluster): does the planner's model order strategies as measurements do?
 *
 *   noise    median over strategies of the spread of a strategy's passes (--repeat)
 *   pairs    pairs of strategies whose measured steps differ by more than twice the noise; in_order: pairs of which the
 *            model predicts the faster strategy
 *   regret   extra time of the strategy that is predicted to be fastest, relative to the fastest measured one
 *   errors   median of |predicted / measured - 1|: of the step, and of the work, which is processor time of all ranks
 *            and does not depend on other programs */
#pragma once

#include "driver/compare/compare_row.h"
#include "lib/cost/cluster.h"
#include "lib/run/plan.h"
#include <stdio.h>

struct compare_forecast { int n, pairs, in_order; double noise, regret, step_error, work_error; };

/** Fill in a row's predicted times. If the planner cannot price the plan, warn and leave them 0. @param plan settled
 *  @param uneven whether the user set pp-split  @collective{none} */
void compare_predict(const struct plan *plan, const struct cluster *, bool uneven, struct compare_row *);
/** Compare the rows that have a prediction. Pure. */
struct compare_forecast compare_forecast_of(const struct compare_row *, int n_rows);
/** Print two sentences, or nothing if fewer than two rows are predicted. */
void compare_forecast_print(FILE *, const struct compare_row *, int n_rows);
