/* Epochs that are planned: what the agent of one host, and the lighthouse of several, do at each turn. */
#ifndef TRIVIUM_LAUNCH_NEXT_MEMBERSHIP_H
#define TRIVIUM_LAUNCH_NEXT_MEMBERSHIP_H

#include "lib/comm/direct/job.h"

/* The job as it is seen. memory: the ranks' own, or one of the same form. n_at_first: slots from here on are of
 * processes that were started later. there[s]: process s lives; told[s], left[s]: that it cannot leave has been said;
 * it has left, and is to end (written here). */
struct plan_view {
    struct own_memory *memory;
    int n_slots, n_at_first, least;
    struct epoch_shape shape;
    const bool *there;
    bool *told, *left;
};

/* PLAN_ASK: ask for the end of this epoch. PLAN_OPEN: the next one; then plan_is_open. PLAN_END: process `slot`. */
enum plan_what { PLAN_NOTHING, PLAN_ASK, PLAN_OPEN, PLAN_END };
struct plan_act { enum plan_what what; int slot; struct epoch next; };   /* PLAN_OPEN: slot leaves; -1: none does */

/* Why no epoch is opened: numbers of ranks */
#define TOO_FEW                                                                                                        \
    "%d ranks are left, of which %d can go on (in whole replicas, which the batch divides by), and --elastic %d "      \
    "wants more"

/** How a job that began with n ranks may shrink. As long as rank 0 has not told it, all are one replica: a spare takes
 *  the place of one that dies, and without a spare nobody goes on. @collective{none} */
struct epoch_shape plan_shape(const struct own_memory *, int n);
/** Who lives, and is of use when somebody dies: not one that is a spare because it has left, once what it had is
 *  elsewhere; nor one that was started later and is not there yet. alive: n_slots. @collective{none} */
void plan_alive(const struct plan_view *, const struct epoch *now, bool whole, bool *alive);
/** Should process s, which lives, move? If it runs; and if it has not begun to, but took a dead one's place: the others
 *  wait for it. @collective{none} */
bool plan_should_move(const struct own_memory *, int s);
/** The next act. goes_on_s[s]: 0, or when chaos lets it go on; until then it is not counted on. @collective{none} */
struct plan_act plan_ahead(const struct plan_view *, const double *goes_on_s);
/** The epoch of PLAN_OPEN is: say so. now: the one before. @collective{none} */
void plan_is_open(const struct plan_view *, const struct epoch *now, const struct plan_act *);

#endif
