/* `trivium plan --gpus N`: the search for the fastest layout. */
#pragma once

#include "lib/base/option.h"
#include "lib/cost/cluster.h"
#include "lib/run/plan.h"
#include "planner/price.h"
#include <jansson.h>

/* plan first: plan_options' offsets hold */
struct plan_request {
    struct plan plan;
    int64_t gpus, top;
    int json, run;
    char write[OPTION_TEXT_MAX], out[OPTION_TEXT_MAX], svg[OPTION_TEXT_MAX];
};

/** Refuse options with which every layout trains differently: then no layout is the best. @errors E_CONFIG */
enum status plan_search_is_of_one_training(const struct plan *);
/** The decisions that the user has made. @param fixed out: a bit for each of them (planner/search.h)
 *  @errors E_CONFIG: a given value that only a search can find  @collective{none} */
enum status plan_search_fixed(const struct options *, const struct plan *, unsigned *fixed);
/** Search, print what was found, write its options to --write, and with --run start it: then it only returns on
 *  failure. @errors E_CONFIG: nothing fits, or nothing can be; those of search_layouts; E_IO  @collective{none} */
enum status plan_search(struct plan_request *, struct options *, const struct cluster *);

/** Phases by name in seconds; bytes by role. */
json_t *plan_phases_json(const struct price *);
json_t *plan_bytes_json(const struct price *);
/** "  of which products 86.1% ...": a line. */
void plan_print_phases(const struct price *);
