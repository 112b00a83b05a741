/* A budget as a page, DIR/budget.html, and its data, DIR/budget.json: a step's parts and mfu at each number of ranks,
 * mfu after losses, and the cost of the interval between saves. */
#pragma once

#include "planner/budget.h"
#include "planner/search.h"
#include <jansson.h>

/* One number of ranks: the best layout if `searched` (otherwise mfu is the user's), and the run's cost. */
struct budget_line {
    int64_t ranks, batch;
    bool fits, searched;
    struct found best;
    double mfu, scale_factor;            /* scale_factor: mfu / that of the first line that fits, T_n / (n T_1) */
    struct budget cost;
};

/* Lines in order of ranks. A zeroed curve is empty. */
struct budget_curve { int n; struct budget_line *line; };
void budget_curve_add(struct budget_curve *, const struct budget_line *);
void budget_curve_fini(struct budget_curve *);

/* curve[0]: with a constant batch. curve[1]: with a batch that grows with ranks. Either curve may be empty. */
struct budget_page {
    const struct plan *plan;
    const struct cluster *cluster;
    const struct budget_curve *curve;    /* [2] */
    double stall_s, restart_s;
};

/** mfu / slowest x goodput: a line's mfu after slow machines, saves and failures. */
double budget_mfu_left(const struct budget_line *);

/** Each curve as an array of lines with ranks, global_batch, fits. A line that fits also has mfu and mfu_left; if its
 *  layout was searched, also step_s and parts_s (plan_part_names). */
json_t *budget_curves_json(const struct budget_page *);
/** For some numbers of ranks, evenly over the longer curve: points [interval_s, lost] of "line", and one point each for
 *  "young" and "daly". lost is the fraction of time that saves and failures take. Empty if the cluster never fails. */
json_t *budget_goodput_json(const struct budget_page *);
