/* What a search found as a page, DIR/plan.html, and its pictures beside it: memory against time, phases, the pipeline,
 * and the tables (plan_tables.h). */
#ifndef TRIVIUM_DRIVER_PLAN_PICTURES_H
#define TRIVIUM_DRIVER_PLAN_PICTURES_H

#include "driver/chart/chart.h"
#include "driver/plan/plan_dots.h"
#include "planner/explain.h"
#include <stdio.h>

struct plan_page {
    const struct plan *asked;
    unsigned fixed;
    const struct cluster *cluster;
    int64_t ranks;
    const struct search *search;         /* ordered by explain_order; the first n_tied are tied */
    int n_shown, n_tied;
    const struct found *fastest;         /* NULL: nothing fits */
    const struct tipping *tipping;       /* (N_ASSUMPTIONS), of the fastest */
    struct plan_dots *dots;
    const char *command;                 /* what to type for the first; "": nothing fits */
};

/** Write the page and its pictures; those of an earlier one are replaced, or go.
 *  @errors those of price_plan; E_IO, E_MEMORY  @collective{none} */
enum status plan_pictures_write(const char *dir, const struct plan_page *);

/* The pictures by themselves: one <svg> each. */
/** Dots of all layouts that are kept, and the memory limit. @return how many dots there are */
int plan_picture_memory(const struct plan_page *, FILE *);
/** The step of each printed layout, in parts. */
void plan_picture_phases(const struct plan_page *, FILE *);

/** Names and colours of a step's parts, the same in every picture. @param out (N_PARTS) written */
void plan_parts_series(struct chart_series out[N_PARTS]);

#endif
