/* Membership decides which ranks a job has. This table has the functions behind the epochs of comm.h and
 * comm_membership.h. Under MPI the ranks never change, and there is no table. */
#pragma once

#include "lib/comm/membership/membership.h"
#include "lib/base/status.h"

struct comm_place;
struct membership_table {
    /* After the ranks have changed: drop all operations in flight, and do not touch the callers' memory any more. */
    void (*leave)(void);
    /* After leave, and after all communicators are closed: enter the next epoch. A spare waits in it until it is
     * needed. @collective{job} @errors E_EPOCH: the ranks have changed again; E_COMM, E_MEMORY */
    enum status (*enter)(struct comm_place *);
    /* Set which ranks an epoch may leave out; only rank 0's call has an effect. */
    void (*shape)(const struct membership_shape *);
    int (*wants_shape)(void);                  /* comm_epoch_wants_shape */
    /* keep stores, and kept returns, a number that survives the death of ranks; 0 at first. */
    void (*keep)(int64_t);
    int64_t (*kept)(void);
    void (*done)(int64_t step);                /* rank 0 reports the number of finished steps */
    /* members: of this epoch, and of the epoch that it goes back to. commit: comm_epoch_commit. */
    void (*members)(struct membership *now, struct membership *from);
    void (*commit)(void);
    bool (*is_committed)(void);
    /* comm_epoch_close, @return is this epoch closed? comm_epoch_is_closed. */
    bool (*close)(void);
    bool (*is_closed)(void);
    bool (*has_changed)(void);                 /* has another epoch been opened? */
    bool (*changes)(void);                     /* does another epoch open within some seconds, after a peer was lost? */
    /* The functions comm_epoch_ends, comm_epoch_drain, comm_epoch_ask_relief. */
    bool (*ends)(void);
    enum status (*drain)(void);
    void (*request)(enum member_request);
};

extern const struct membership_table membership_direct;      /* direct/direct.c */
/* Set the job's table; NULL: its ranks never change. Call it before comm_start opens the world. */
void comm_membership_is(const struct membership_table *);
/* Call leave, if there is a table; call enter. @errors E_INTERNAL: there is no table; those of enter */
void comm_membership_leave(void);
enum status comm_membership_enter(struct comm_place *);
