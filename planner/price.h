/* Seconds of a training step, predicted from the rows that it runs and from a cluster.
 *
 * A rank of every stage is compiled (lib/run). The time of an action is the sum over its tape's rows, of their
 * computation (op_time.h) and exchanges (wire_time.h). The schedule's simulator (lib/cost/timeline.h) combines the
 * actions of all stages to a step. Work outside the schedule is added at the step's end:
 *
 *   step = time line of the schedule + exposed sum over replicas + gathers + sums over the mesh + update
 *
 * What hides an exchange depends on its enum exchange_when:
 *   in a row          an asynchronous row: the rows until its wait. A message inside a row: the row itself
 *   behind backward   overlap_part of the last microbatch's backward
 *   behind a block    overlap_part of the stage's work
 *   at the end        nothing; nor does anything hide offload: copies from and to the host, and the host's update
 * The work that hides an exchange is slowed down by overlap_slowdown of the hidden time.
 *
 * If ranks share cores (cluster.cores), the cores also copy the messages, so nothing hides exchanges. A waiting rank
 * leaves its core to another one. So a step takes all ranks' work divided by the cores, or the time of one rank's chain
 * as above, if that is longer.
 *
 * The phases of the busiest stage add up to the step. The time in which this stage does no work is its wait for others:
 * the bubble is this wait with a wire that takes no time, and PRICE_PP is the rest. */
#pragma once

#include "lib/cost/cluster.h"
#include "lib/cost/timeline.h"
#include "lib/run/profile.h"
#include "lib/run/run.h"

enum price_phase {
    PRICE_PRODUCTS,        /* rows that are bound by arithmetic */
    PRICE_MEMORY,          /* rows that are bound by memory */
    PRICE_CASTS,           /* to fp8, with their amax */
    PRICE_REPLAY,          /* rows that are run again, with their exchanges */
    PRICE_TP, PRICE_CP, PRICE_EP,   /* exchanges in rows, as far as nothing hides them */
    PRICE_BUBBLE,
    PRICE_PP,              /* messages of the pipeline */
    PRICE_DP,              /* all-reduces over replicas, as far as backward does not hide them, and its slowdown */
    PRICE_GATHER,          /* gathers of sharded weights */
    PRICE_OPTIM,           /* sums over the mesh, and the update */
    PRICE_OFFLOAD,         /* copies to the host and back, and the host's update */
    N_PRICE_PHASES
};
/** "products", "memory", ... */
const char *price_phase_name(enum price_phase);

struct price {
    double work_s;                       /* on shared cores: rows and updates of all ranks, without exchanges; else 0 */
    double step_s, mfu;                  /* mfu: flops by the model's formula / the cluster's peak */
    double phase_s[N_PRICE_PHASES];      /* of the busiest stage; if shared cores bound the step, of all. Sum: step_s */
    struct stage_price {
        double s;                        /* its work in a step, without the step's end */
        int64_t bytes;
        int layers;
    } stage[PLAN_MAX_STAGES];
    double forward_s;                    /* forward rows of the busiest stage, with their exchanges */
    int busiest;                         /* stage */
    int64_t bytes[N_ROLES], total_bytes; /* of the fullest stage */
    int64_t host_bytes;                  /* of host memory, for offloaded and parked data: the largest stage's */
    int fullest;
    bool fits;                           /* total_bytes and the cluster's reserve fit into its memory */
};

/* uneven: stages may have any number of layers (pp-split), so each is compiled. only_if_it_fits: a plan that does not
 * fit gets only bytes, and step_s 0; with one_is_enough only those of the first stage found too full. only_the_step:
 * phases of bubble and pp stay 0. stem: parts of the plan priced before, which this one may share; NULL: none. */
struct price_wish { bool uneven, only_if_it_fits, one_is_enough, only_the_step; struct run_stem *stem; };

/** Has the cluster all the numbers that pricing the plan needs?
 *  @errors E_CONFIG: no peak in its precision; offload, and no speed of the host; an asynchronous schedule */
enum status price_check(const struct plan *, const struct cluster *);

/** @param plan settled. @param wish NULL: no wish. @errors those of run_compile; E_CONFIG: those of
 *  price_check  @collective{none} */
enum status price_plan(const struct recipe *, const struct plan *plan, const struct cluster *,
                       const struct price_wish *wish, struct price *out);
/** price_plan on n clusters; the plan is compiled once. @errors as price_plan  @collective{none} */
enum status price_plan_on(const struct recipe *, const struct plan *, const struct cluster *, int n,
                          const struct price_wish *, struct price *out);

/** The prediction that `--profile` prints: the rows of a run, compiled or created, and the device's part of its update.
 *  Free out->row_s.  @errors those of price_check; E_MEMORY  @collective{none} */
enum status price_profile(const struct run *, const struct cluster *, struct profile_forecast *out);

/** Bytes that the optimizer reads and writes in a step for the rank's own elements.  @collective{none} */
double price_update_bytes(const struct program *);

/* The schedules of all stages, and when each of their actions starts and ends, in s. */
struct price_time_line { int n_stages; struct schedule *schedules; struct timeline timeline; };
/** The time line of a step, from the first action to the last, without the work after it. Free *out with
 *  price_time_line_fini, also after an error. @param uneven as in price_wish  @errors as above  @collective{none} */
enum status price_time_line(const struct recipe *, const struct plan *, const struct cluster *, bool uneven,
                            struct price_time_line *out);
void price_time_line_fini(struct price_time_line *);
