/* Membership decides which ranks a job has: the functions behind the epochs of comm.h and comm_membership.h. A
 * transport moves bytes between the ranks that there are; under MPI these never change, and there is no such
 * table. */
#pragma once

#include "lib/comm/membership/membership.h"
#include "lib/base/status.h"

struct comm_place;
struct membership_table {
    /* After the ranks have changed: what is in flight is forgotten, and the callers' memory not touched any more. */
    void (*leave)(void);
    /* After that, and when all communicators are closed: into the next epoch. A spare waits here until it is needed.
     * @collective{job} @errors E_EPOCH: again, too; E_COMM, E_MEMORY */
    enum status (*enter)(struct comm_place *);
    /* Which ranks may be left out of an epoch; rank 0's word counts. */
    void (*shape)(const struct membership_shape *);
    int (*wants_shape)(void);                  /* comm_epoch_wants_shape */
    /* A number that outlives its ranks; 0 at first. */
    void (*keep)(int64_t);
    int64_t (*kept)(void);
    void (*done)(int64_t step);                /* rank 0 has done this number of steps */
    /* The members of this epoch, and of the one that it goes back to; and comm_epoch_commit. */
    void (*members)(struct membership *now, struct membership *from);
    void (*commit)(void);
    bool (*is_committed)(void);
    /* comm_epoch_close: @return whether this epoch is closed; _is_closed. */
    bool (*close)(void);
    bool (*is_closed)(void);
    bool (*has_changed)(void);                 /* another epoch has been opened */
    bool (*changes)(void);                     /* the same, waited for, for a few seconds: a peer has been lost */
    /* Is it to end; the wait for the next one; what this rank asks for (comm_epoch_ends, _drain, _ask_relief). */
    bool (*ends)(void);
    enum status (*drain)(void);
    void (*request)(enum member_request);
};

extern const struct membership_table membership_direct;      /* direct/direct.c */
/* The job's; NULL: its ranks never change. Set before comm_start opens the world. */
void comm_membership_is(const struct membership_table *);
/* leave, if there is a table; enter. @errors E_INTERNAL: there is none; those of enter */
void comm_membership_leave(void);
enum status comm_membership_enter(struct comm_place *);
