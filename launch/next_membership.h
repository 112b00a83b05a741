/* Planned epochs, for the agent of one host and the lighthouse of several, which call plan_ahead at each turn. */
#ifndef TRIVIUM_LAUNCH_NEXT_MEMBERSHIP_H
#define TRIVIUM_LAUNCH_NEXT_MEMBERSHIP_H

#include "lib/comm/direct/job.h"

/* The state of the job. memory: the ranks' memory, or one of the same form. n_at_first: slots from here on are
 * processes that were started later. there[s]: process s lives. Written here: `told[s]`: its wish to leave was refused,
 * with a line; `left[s]`: it has left, and will be ended. */
struct plan_view {
    struct own_memory *memory;
    int n_slots, n_at_first, least;
    struct epoch_shape shape;
    const bool *there;
    bool *told, *left;
};

/* PLAN_ASK: ask the ranks to end this epoch. PLAN_OPEN: open the next one, then call plan_is_open. PLAN_END: end
 * process `slot`. */
enum plan_what { PLAN_NOTHING, PLAN_ASK, PLAN_OPEN, PLAN_END };
struct plan_act { enum plan_what what; int slot; struct epoch next; };   /* PLAN_OPEN: slot leaves; -1: none */

/* Why no epoch is opened. Arguments: numbers of ranks */
#define TOO_FEW                                                                                                        \
    "%d ranks are left, of which %d can go on (in whole replicas, which the batch divides by), and --elastic %d "      \
    "needs more"

/** How a job that began with n ranks may shrink. Until rank 0 has written the shape, all ranks count as one replica: a
 *  spare replaces a dead rank, and without a spare the job ends. @collective{none} */
struct epoch_shape plan_shape(const struct own_memory *, int n);
/** Set alive[n_slots]: the live processes that may be members after a death. Spares that have left are not, once this
 *  epoch is whole; nor are processes that were started later and have not begun to run. @collective{none} */
void plan_alive(const struct plan_view *, const struct epoch *now, bool whole, bool *alive);
/** Should live process s move? It should if it runs. It also should if it is still starting but has taken a dead rank's
 *  place, because the others wait for it. @collective{none} */
bool plan_should_move(const struct own_memory *, int s);
/** The next act. goes_on_s[s]: 0, or the time until which chaos stops process s; a stopped process is not ready to
 *  join. @collective{none} */
struct plan_act plan_ahead(const struct plan_view *, const double *goes_on_s);
/** Print a line about the epoch of PLAN_OPEN, which is open. now: the epoch before. @collective{none} */
void plan_is_open(const struct plan_view *, const struct epoch *now, const struct plan_act *);

#endif
