/* What the files of the agent share. Private to it: agent.c starts ranks and sees them end, agent_membership.c says who
 * goes on. */
#ifndef TRIVIUM_LAUNCH_AGENT_JOB_H
#define TRIVIUM_LAUNCH_AGENT_JOB_H

#include "launch/chaos_wreak.h"
#include "launch/reconnect.h"
#include "launch/still.h"
#include "lib/comm/direct/job.h"
#include <signal.h>
#include <sys/types.h>

struct agent {
    struct own_job job;                      /* slot: unused */
    struct own_memory *memory;
    char **words;                            /* of a rank's program */
    sigset_t unblocked;                      /* what it is to find unblocked */
    pid_t pid[OWN_MOST_RANKS];               /* 0: ended, or not started yet */
    int n, least;                            /* ranks at first; fewest that go on, 0: none does */
    int n_at_first, n_started;               /* processes; those of --respawn come later */
    int n_left, code;                        /* code: what the agent ends with */
    bool told[OWN_MOST_RANKS], left[OWN_MOST_RANKS];   /* that it cannot leave; it has, and is ended */
    bool encrypts;                           /* what goes between emulated hosts */
    double ending_s;                         /* when the ranks got their TERM; 0: they have not */
    double hang_s, looked_s;                 /* 0: not looked for; the last look at who moves */
    struct still still[OWN_MOST_RANKS];
    struct reconnect reconnect;
    struct wreak chaos;
};

/* ---- agent.c ---- */
/** TERM to all ranks, once. */
void agent_end_all(struct agent *);
/** It lives, and others may wait for it (plan_should_move). */
bool agent_should_move(const struct agent *, int slot);
bool agent_has_finished(const struct agent *, int slot);
bool agent_has_withdrawn(const struct agent *, int slot);
/** Or has said that all is done: from now on a death costs nothing. */
bool agent_any_has_finished(const struct agent *);

/* ---- agent_membership.c ---- */
/** A signal has killed slot: open an epoch of those that are left. status: of its end.
 *  @return whether they are enough, and there is room for it */
bool agent_go_on(struct agent *, int slot, int status);
/** At each turn: two that live may have lost each other; a better epoch may be had; chaos, if it was asked for. */
void agent_look_who_is_lost(struct agent *);
void agent_plan_ahead(struct agent *);
void agent_wreak_chaos(struct agent *);

#endif
