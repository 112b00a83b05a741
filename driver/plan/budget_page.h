/* A budget as a page, DIR/budget.html, and its data, DIR/budget.json: where steps go by the number of ranks, mfu and
 * what is left of it, and what the interval between saves costs. */
#pragma once

#include "planner/budget.h"
#include "planner/search.h"
#include <jansson.h>

/* One number of ranks: the best layout (not searched: mfu was given), and the run's cost. */
struct budget_line { int64_t ranks, batch; bool fits, searched; struct found best; double mfu; struct budget cost; };

/* Lines by rising ranks. Zeroed is empty. */
struct budget_curve { int n; struct budget_line *line; };
void budget_curve_add(struct budget_curve *, const struct budget_line *);
void budget_curve_fini(struct budget_curve *);

/* curve[0]: the batch stays; curve[1]: it grows with ranks. Either may be empty. */
struct budget_page {
    const struct plan *plan;
    const struct cluster *cluster;
    const struct budget_curve *curve;    /* [2] */
    double stall_s, restart_s;
};

/** mfu / slowest x goodput: what is left of a line's mfu. */
double budget_mfu_left(const struct budget_line *);

/** Each curve as an array of lines: ranks, global_batch, fits; of those that fit mfu, mfu_left, and where the layout
 *  was searched step_s and parts_s (plan_part_names). */
json_t *budget_curves_json(const struct budget_page *);
/** For some numbers of ranks, evenly over the longer curve: [interval_s, lost] along "line", and for "young" and
 *  "daly"; lost is the part of all time that saves and failures take. Empty where nothing fails. */
json_t *budget_goodput_json(const struct budget_page *);
