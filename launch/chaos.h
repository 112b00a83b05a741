/* Chaos: `launch --chaos SEED` kills, stops and slows ranks of an elastic job, as a test of its recovery. See
 * chaos.c. */
#pragma once

#include "lib/comm/membership/membership.h"
#include <stdio.h>

enum chaos_kind { CHAOS_KILL, CHAOS_STOP, CHAOS_SLOW, CHAOS_CUT, N_CHAOS_KINDS };
/* n slots at once; for a cut, its two ends. seconds: since the previous act; slow_s: how long a slowed rank is
 * stopped. */
struct chaos_act { enum chaos_kind kind; int n, slot[2]; double seconds, slow_s; };

/* The state of the job: its live slots, and the fewest that go on. node: the host of each slot; NULL: all are on one
 * host. */
struct chaos_job {
    struct membership now;
    bool committed;
    const bool *alive;
    int n_slots, least;
    struct membership_shape shape;
    const int *node;
};

/** Act k of a seed, for the job's present state. mean_s: the mean time between two acts. hang_s: the agent kills a rank
 *  that is stopped for that long, and slowed ranks are stopped for less; 0: no rank is stopped for good. Where a death
 *  would leave too few ranks, the act slows one. Connections are cut only in committed epochs, because a connection
 *  that cannot be made costs a rank (agent.c). Pure. @collective{none} */
struct chaos_act chaos_act(int seed, int k, double mean_s, double hang_s, const struct chaos_job *);

/* ---- costs ---- */
/* A cut costs no rank, so cuts alone could stop all progress: each waits for this number of steps in its epoch. */
enum { CHAOS_MOST_DEATHS = 256, CHAOS_STEPS_BEFORE_A_CUT = 8 };
struct chaos_costs {
    int acts[N_CHAOS_KINDS], n_deaths, n_epochs, n_recovered;
    double from_s, died_s;                           /* the first step's end; the oldest death without a step since */
    double recovered_s[CHAOS_MOST_DEATHS];           /* from a death to the next step */
    int64_t last_step, steps, again, in_epoch;       /* steps done, in all; of them, again; in this epoch */
    int32_t last_epoch;
};
/** Record a death; record the progress (own_done). @collective{none} */
void chaos_died(struct chaos_costs *, double now_s);
void chaos_look(struct chaos_costs *, int32_t epoch, int64_t step, double now_s);
/** Print the costs in two lines. @collective{none} */
void chaos_print(struct chaos_costs *, int seed, double now_s, FILE *);
