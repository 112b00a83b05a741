/* `trivium plan --gpus N`: the search for the fastest layout. */
#pragma once

#include "lib/base/option.h"
#include "lib/cost/measured.h"
#include "lib/run/plan.h"
#include "planner/price.h"
#include <jansson.h>

/* plan comes first, because the offsets of its options count from it */
struct plan_request {
    struct plan plan;
    int64_t gpus, top;
    int json, run;
    char write[OPTION_TEXT_MAX], out[OPTION_TEXT_MAX], svg[OPTION_TEXT_MAX];
    char measured[OPTION_TEXT_MAX], against[OPTION_TEXT_MAX], stack[OPTION_TEXT_MAX];
    struct measured figures;             /* of the cluster, from the files of measured */
};

/** Refuse options with which each dp trains differently, because a search compares equal trainings. @errors E_CONFIG */
enum status plan_search_is_of_one_training(const struct plan *);
/** The decisions that the user has made. @param fixed out: one bit per decision (planner/search.h)
 *  @errors E_CONFIG: the user set an option that only a search can set  @collective{none} */
enum status plan_search_fixed(const struct options *, const struct plan *, unsigned *fixed);
/** Search, print the result, and write the best layout's options to --write. With --run execute its training; return on
 *  failure only. @errors E_CONFIG: no layout fits or is possible; those of search_layouts; E_IO  @collective{none} */
enum status plan_search(struct plan_request *, struct options *, const struct cluster *);

/** Phases by name in seconds; bytes by role. */
json_t *plan_phases_json(const struct price *);
json_t *plan_bytes_json(const struct price *);
/** Print the line "  of which products 86.1% ...". */
void plan_print_phases(const struct price *);
