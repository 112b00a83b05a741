/* Planned epochs, without a death: more replicas once there are spares for them, and ranks that leave on request. See
 * planned.c. */
#ifndef TRIVIUM_COMM_MEMBERSHIP_PLANNED_H
#define TRIVIUM_COMM_MEMBERSHIP_PLANNED_H

#include "lib/comm/membership/membership.h"

/* The job as it is: ready[s]: process s lives, has started, and has not asked to leave; wish[s]: an enum epoch_wish.
 * least: of ranks that go on (--elastic). */
struct planned_job {
    struct epoch now;                        /* whole */
    const bool *ready, *alive;
    const int *wish;
    int n_slots, least;
    struct epoch_shape shape;
};

/* leaves: the member that the next epoch is without; -1: none. cannot: one that asked to leave, and would take the
 * only copy of a shard along, or leave too few; -1: none. */
struct planned { struct epoch next; int leaves, cannot; };

/** Is there a better epoch than this one? next.n 0: there is none. Pure. @collective{none} */
struct planned planned_epoch(const struct planned_job *);
/** The epoch after this one when the reason for it is gone, and all members wait for it. Pure. @collective{none} */
struct epoch planned_anyway(const struct planned_job *);

#endif
