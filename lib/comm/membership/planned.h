/* Planned epochs, without a death: more replicas if there are spares for them, and ranks that leave on request. See
 * planned.c. */
#pragma once

#include "lib/comm/membership/membership.h"

/* The state of the job. ready[s]: process s lives, has started, and has not asked to leave; request[s]: an enum
 * member_request. least: the smallest number of ranks with which the job continues (--elastic). */
struct planned_job {
    struct membership now;                   /* committed */
    const bool *ready, *alive;
    const int *request;
    int n_slots, least;
    struct membership_shape shape;
};

/* leaves: the member that leaves with the next epoch; -1: none. cannot: a member that asked to leave, but has the only
 * copy of a shard, or without which too few ranks are left; -1: none. */
struct planned { struct membership next; int leaves, cannot; };

/** Is there a better epoch than this one? next.n 0: there is none. Pure. @collective{none} */
struct planned planned_membership(const struct planned_job *);
/** The next epoch, if its reason is gone, but all members already wait for it. Pure. @collective{none} */
struct membership planned_anyway(const struct planned_job *);
