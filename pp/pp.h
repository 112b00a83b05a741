/* Pipeline parallelism: each rank has a run of consecutive layers, and microbatches flow through. See pp.c. */
#pragma once

#include "lib/run/technique.h"
#include "pp/pp_schedule.h"

extern const struct technique technique_pp;

enum { OPTIM_SYNC_WAIT, OPTIM_SYNC_VALIDATE };

struct pp_options {
    int schedule;                        /* pp_schedule_at, or SCHEDULE_FILE */
    char file[OPTION_TEXT_MAX];          /* path of the schedule, with SCHEDULE_FILE; must follow `schedule` */
    int64_t chunks;
    char split[OPTION_TEXT_MAX];         /* "3,4,5": layers of each virtual stage; "": evenly */
    char times[OPTION_TEXT_MAX];         /* "2.1,2.0,1.1,0.1": times of F, Bi, W and a message; "": F = Bi = W */
    int64_t memory;                      /* microbatches that a rank keeps at most; 0: as many as the schedule says */
    int optim_sync;                      /* how an update waits for loss and norm (lib/run/update.h) */
};
static inline struct pp_options *pp_options(const struct plan *p) { return plan_own(p, &technique_pp.options); }

/** The schedule of a plan: an entry of the list, or the one in the plan's file. check refuses an unreadable file. */
const struct pp_schedule *pp_row(const struct plan *);
/** Stages, chunks and microbatches of a plan. */
struct pp_shape pp_shape_of_plan(const struct plan *);

/** The actions of the plan's stage; and of all stages, into zeroed schedules. Pure. @errors none @collective{none} */
enum status pp_schedule(const struct plan *, struct schedule *);
enum status pp_schedules(const struct plan *, struct schedule *);

/** The costs of --schedule-times and --schedule-memory; false: not numbers, or too few. */
bool pp_read_times(const struct pp_options *, struct pp_costs *);
/** Check these two options. @errors E_CONFIG: unreadable, or the schedule's order does not depend on them */
enum status pp_check_times(const struct plan *);
/** Check a schedule without a flush. @errors E_CONFIG: the plan needs weights of one update on all stages */
enum status pp_check_endless(const struct plan *);

/** Set the virtual stage of each layer, by --pp-split, or evenly with the remainder on the first stages. stage_of has
 *  plan->layers entries. @errors E_CONFIG: more virtual stages than layers; or the split does not have one positive
 *  count per virtual stage, or the counts do not sum to layers */
enum status pp_assign_layers(const struct plan *, int *stage_of);
