/* State shared by the files of the agent, and private to them. agent.c starts ranks and waits for their ends;
 * agent_membership.c decides which ranks continue. */
#pragma once

#include "launch/chaos_wreak.h"
#include "launch/reconnect.h"
#include "launch/still.h"
#include "lib/comm/direct/job.h"
#include <signal.h>
#include <sys/types.h>

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
