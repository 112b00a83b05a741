/* Chaos: `launch --chaos SEED` kills, stops and slows ranks of an elastic job, as a test of its recovery (chaos.c). */
#pragma once

#include "lib/comm/membership/membership.h"
#include <stdio.h>

enum chaos_kind { CHAOS_KILL, CHAOS_STOP, CHAOS_SLOW, CHAOS_CUT, N_CHAOS_KINDS };
/* slot: n victims at once, or the ends of a cut. seconds: until the next act; slow_s: how long a slowed rank stops. */
struct chaos_act { enum chaos_kind kind; int n, slot[2]; double seconds, slow_s; };

/* The state of the job. alive: which slots live; least: the fewest ranks that continue. node: the host of each slot;
 * NULL: no connection may be cut. */
struct chaos_job {
    struct membership now;
    bool committed;
    const bool *alive;
    int n_slots, least;
    struct membership_shape shape;
    const int *node;
};

/** Draw act k of a seed, for the job's present state. mean_s: the mean time between two acts. hang_s: the agent kills a
 *  rank that is stopped for that long, so slowed ranks are stopped for less; 0: no rank is stopped for good. If a death
 *  would leave too few ranks, the act slows one. Connections are cut only in committed epochs, because a loss before
 *  the commit can cost a rank (reconnect.c). Pure. @collective{none} */
struct chaos_act chaos_act(int seed, int k, double mean_s, double hang_s, const struct chaos_job *);

/* ---- costs ---- */
/* An epoch has at least this number of steps before a cut. Otherwise cuts alone could stop all progress. */
enum { CHAOS_MOST_DEATHS = 256, CHAOS_STEPS_BEFORE_A_CUT = 8 };
struct chaos_costs {
    int acts[N_CHAOS_KINDS], n_deaths, n_epochs, n_recovered;
    double from_s, died_s;                           /* end of the first step; first death since the last step, or 0 */
    double recovered_s[CHAOS_MOST_DEATHS];           /* from a death to the next step */
    int64_t last_step, steps, again, in_epoch;       /* steps: done in all; again: repeated; in_epoch: in this epoch */
    int32_t last_epoch;
};
/** chaos_died: record a death. chaos_look: record the step that rank 0 has finished (own_done). @collective{none} */
void chaos_died(struct chaos_costs *, double now_s);
void chaos_look(struct chaos_costs *, int32_t epoch, int64_t step, double now_s);
/** Print the costs in two lines. @collective{none} */
void chaos_print(struct chaos_costs *, int seed, double now_s, FILE *);
