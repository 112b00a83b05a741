/* A budget as a page, DIR/budget.html, and its pictures in the same folder: where steps go by the number of ranks, mfu
 * and what is left of it, and what the interval between saves costs. */
#ifndef TRIVIUM_DRIVER_BUDGET_PICTURES_H
#define TRIVIUM_DRIVER_BUDGET_PICTURES_H

#include "planner/budget.h"
#include "planner/search.h"
#include <stdio.h>

/* One number of ranks: the best layout (not searched: mfu was given), and what it all costs. */
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

/** Write the page and its pictures; those of an earlier one are replaced, or go.  @errors E_IO, E_MEMORY
 *  @collective{none} */
enum status budget_pictures_write(const char *dir, const struct budget_page *);

/** mfu / slowest x goodput: what is left of a line's mfu. */
double budget_mfu_left(const struct budget_line *);

/* The pictures by themselves: one <svg> each, or nothing where there is nothing to draw. */
/** Parts of the step, in % of it: a bar for each line that was searched and fits.  @errors E_MEMORY */
enum status budget_picture_shares(const struct budget_page *, FILE *);
/** mfu, and mfu left: a dot for each line that fits, on each of two lines a curve.  @errors E_MEMORY */
enum status budget_picture_mfu(const struct budget_page *, FILE *);
/** Time lost against the interval between saves, for some numbers of ranks; Young's and Daly's intervals are marked.
 *  @errors E_MEMORY */
enum status budget_picture_goodput(const struct budget_page *, FILE *);

#endif
