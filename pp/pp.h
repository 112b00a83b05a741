/* Pipeline parallelism: each rank has a run of consecutive layers, and microbatches flow through. See pp.c. */
#ifndef TRIVIUM_PP_PP_H
#define TRIVIUM_PP_PP_H

#include "lib/run/technique.h"
#include "pp/pp_schedule.h"

extern const struct technique technique_pp;

struct pp_options {
    int schedule;                        /* pp_schedule_at */
    int64_t chunks;
    char split[OPTION_TEXT_MAX];         /* "3,4,5": layers of each virtual stage; "": evenly */
};
static inline struct pp_options *pp_options(const struct plan *p) { return plan_own(p, &technique_pp.options); }

/** Stages, chunks and microbatches of a plan. */
struct pp_shape pp_shape_of_plan(const struct plan *);

/** Which virtual stage each layer is on: as --pp-split says, or evenly with the remainder on the
 *  first ones. stage_of has plan->layers entries. @errors E_CONFIG: more virtual stages than layers; a split that does
 *  not name as many positive counts that sum to layers */
enum status pp_assign_layers(const struct plan *, int *stage_of);

#endif
