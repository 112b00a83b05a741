/* The result of a search as a page, DIR/plan.html, and its data, DIR/plan.json: the search as `plan --json` prints it,
 * a dot for each kept layout (plan_dots.h), the pipeline of the first layout, and rows of tables (plan_tables.h). */
#pragma once

#include "driver/plan/plan_dots.h"
#include "planner/explain.h"
#include <jansson.h>

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
    const char *command;                 /* that trains the first layout; "": nothing fits */
};

/** The data of the page without "search". The caller releases *out.  @errors those of price_plan; E_MEMORY
 *  @collective{none} */
enum status plan_page_json(const struct plan_page *, json_t **out);

/** Names of a step's parts; seconds of the parts in the same order. */
json_t *plan_part_names(void);
json_t *plan_parts_json(const struct price *);
