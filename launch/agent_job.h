/* State shared by the files of the agent, and private to them. agent.c starts ranks and waits for their ends;
 * agent_membership.c decides which ranks continue. */
#pragma once

#include "launch/chaos_wreak.h"
#include "launch/reconnect.h"
#include "lib/comm/direct/job.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* All zero: not checked yet. */
struct still { unsigned beat; double moved_s; };

struct agent {
    struct own_job job;                      /* slot: unused */
    struct own_memory *memory;
    char **words;                            /* the command of a rank */
    sigset_t unblocked;                      /* signals that ranks start with */
    pid_t pid[OWN_MOST_RANKS];               /* 0: ended, or not started yet */
    int n, least;                            /* ranks at first; the fewest that go on, 0: no epochs */
    int n_at_first, n_started;               /* processes without those of --respawn; processes started so far */
    int n_left, code;                        /* live processes; the agent's exit code */
    bool told[OWN_MOST_RANKS], left[OWN_MOST_RANKS];   /* as in struct members */
    bool encrypts;                           /* encrypt the traffic between emulated hosts */
    double ending_s;                         /* when the ranks got TERM; 0: not yet */
    double hang_s, looked_s;                 /* hang_s 0: no limit; looked_s: the last check of the beats */
    struct still still[OWN_MOST_RANKS];
    struct reconnect reconnect;
    struct wreak chaos;
};

/* ---- agent.c ---- */
/** Send TERM to all ranks, once. */
void agent_end_all(struct agent *);
/** Does the rank live, and may other ranks wait for it (member_should_move)? */
bool agent_should_move(const struct agent *, int slot);
bool agent_has_finished(const struct agent *, int slot);
bool agent_has_withdrawn(const struct agent *, int slot);
/** Has a rank finished, or is the last epoch closed (comm_epoch_close)? If so, a death does no harm. */
bool agent_any_has_finished(const struct agent *);

/* ---- agent_membership.c ---- */
/** Process `slot` was killed or has withdrawn: if it was a member, open an epoch of the live ranks. status: its wait
 *  status. @return whether the job goes on: enough ranks are left, and the memory has room for the epoch */
bool agent_go_on(struct agent *, int slot, int status);
/** Called at each turn: mend lost connections between live ranks; open a better epoch; act for --chaos. */
void agent_look_who_is_lost(struct agent *);
void agent_look_ahead(struct agent *);
void agent_wreak_chaos(struct agent *);

/* ---- Turns a child process of an agent into a rank. ---- */

/** In a newly forked child: become rank job->slot and run `words`. local: the rank's number on this host; unblocked:
 *  the signal mask before the agent blocked signals; agent: the agent's process number. Does not return. */
void rank_become(const struct own_job *, int local, char **words, const sigset_t *unblocked, pid_t agent)
    __attribute__((noreturn));

/* Finds ranks that are stopped or stuck. Each rank has a beat in the job's memory, which it increments whenever it
 * works for its transport. If the beat of a rank that should move does not change for --hang-timeout, the agent
 * kills the rank. Time during which the agent itself was stopped does not count. */

/** Check once. gap_s: the time since the previous check; hang_s: the longest time without a change of the beat.
 *  @return whether the beat has not changed for hang_s; if so, the time starts again */
bool still_too_long(struct still *, unsigned beat, bool should_move, double now_s, double gap_s, double hang_s);
/** Kill the process, and print a line with its state: stopped, sleeping, computing. */
void still_kill(int slot, pid_t, double hang_s);
