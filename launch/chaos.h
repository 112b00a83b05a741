/* Chaos: what `launch --chaos SEED` does to the ranks of an elastic job, to see whether it holds. See chaos.c. */
#ifndef TRIVIUM_LAUNCH_CHAOS_H
#define TRIVIUM_LAUNCH_CHAOS_H

#include "lib/comm/membership/membership.h"
#include <stdio.h>

enum chaos_kind { CHAOS_KILL, CHAOS_STOP, CHAOS_SLOW, CHAOS_CUT, N_CHAOS_KINDS };
/* To n slots at once; of a cut: the two ends. seconds: after the last one; slow_s: how long a slowed rank is
 * stopped. */
struct chaos_act { enum chaos_kind kind; int n, slot[2]; double seconds, slow_s; };

/* What the job is: who lives, and when there are too few. node: of each slot; NULL: all are on one host. */
struct chaos_job {
    struct epoch now;
    bool whole;
    const bool *alive;
    int n_slots, least;
    struct epoch_shape shape;
    const int *node;
};

/** Act k of a seed: a pure function, of the job as it is now. mean_s: the mean time between two acts; hang_s: a rank
 *  that is stopped for so long is killed, and slowed ones are stopped for less; 0: none is stopped for good. Where a
 *  death would leave too few, a rank is slowed. Connections are cut in epochs that are whole: one that cannot be made
 *  costs a rank (agent.c). Pure. @collective{none} */
struct chaos_act chaos_act(int seed, int k, double mean_s, double hang_s, const struct chaos_job *);

/* ---- what it cost ---- */
/* Cuts cost no rank and would never end: so many steps in an epoch come before each. */
enum { CHAOS_MOST_DEATHS = 256, CHAOS_STEPS_BEFORE_A_CUT = 8 };
struct chaos_costs {
    int acts[N_CHAOS_KINDS], n_deaths, n_epochs, n_recovered;
    double from_s, died_s;                           /* the first step's end; the oldest death without a step since */
    double recovered_s[CHAOS_MOST_DEATHS];           /* from a death to the next step */
    int64_t last_step, steps, again, in_epoch;       /* steps done, in all; of them, again; in this epoch */
    int32_t last_epoch;
};
/** A rank has died; a look at what is done (own_done). @collective{none} */
void chaos_died(struct chaos_costs *, double now_s);
void chaos_look(struct chaos_costs *, int32_t epoch, int64_t step, double now_s);
/** In two lines. @collective{none} */
void chaos_print(struct chaos_costs *, int seed, double now_s, FILE *);

#endif
