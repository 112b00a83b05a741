/* Planned epochs, without a death: more replicas once there are spares for them, and ranks that leave on request. See
 * planned.c. */
#ifndef TRIVIUM_COMM_MEMBERSHIP_PLANNED_H
#define TRIVIUM_COMM_MEMBERSHIP_PLANNED_H

#include "lib/comm/membership/membership.h"

/* The state of the job. ready[s]: process s lives, has started, and has not asked to leave; wish[s]: an enum
 * epoch_wish. least: the fewest ranks that go on (--elastic). */
struct planned_job {
    struct epoch now;                        /* whole */
    const bool *ready, *alive;
    const int *wish;
    int n_slots, least;
    struct epoch_shape shape;
};

/* leaves: the member that leaves with the next epoch; -1: none. cannot: a member that asked to leave, but has the only
 * copy of a shard, or is one of the fewest ranks; -1: none. */
struct planned { struct epoch next; int leaves, cannot; };

/** Is there a better epoch than this one? next.n 0: there is none. Pure. @collective{none} */
struct planned planned_epoch(const struct planned_job *);
/** The next epoch when its reason is gone, but all members wait for it. Pure. @collective{none} */
struct epoch planned_anyway(const struct planned_job *);

#endif
