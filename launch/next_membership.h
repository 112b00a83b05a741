/* Planned epochs, for the agent of one host and the lighthouse of several, which call next_membership at each turn. */
#pragma once

#include "lib/comm/direct/job.h"

/* The state of the job. memory: the ranks' memory, or one of the same form. n_at_first: slots from here on are
 * processes that were started later. there[s]: process s lives. Written here: `told[s]`: its request to leave was
 * refused, with a line; `left[s]`: it has left, and will be ended. */
struct members {
    struct own_memory *memory;
    int n_slots, n_at_first, least;
    struct membership_shape shape;
    const bool *there;
    bool *told, *left;
};

/* MEMBERS_DRAIN: ask the ranks to end this epoch. MEMBERS_CHANGE: open the next one, then call next_membership_is_open.
 * MEMBERS_END: end process `slot`. */
enum membership_what { MEMBERS_STAY, MEMBERS_DRAIN, MEMBERS_CHANGE, MEMBERS_END };
/* MEMBERS_CHANGE: slot leaves; -1: none */
struct membership_act { enum membership_what what; int slot; struct membership next; };

/* Why no epoch is opened. Arguments: numbers of ranks */
#define TOO_FEW                                                                                                        \
    "%d ranks are left, of which %d can go on (in whole replicas, which the batch divides by), and --elastic %d "      \
    "needs more"

/** How a job that began with n ranks may shrink. Until rank 0 has written the shape, all ranks count as one replica: a
 *  spare replaces a dead rank, and without a spare the job ends. @collective{none} */
struct membership_shape members_shape(const struct own_memory *, int n);
/** Set alive[n_slots]: the live processes that may be members after a death. Spares that have left are not, once this
 *  epoch is committed; nor are processes that were started later and have not begun to run. @collective{none} */
void members_alive(const struct members *, const struct membership *now, bool committed, bool *alive);
/** Should live process s move? It should if it runs. It also should if it is still starting but has taken a dead rank's
 *  place, because the others wait for it. @collective{none} */
bool member_should_move(const struct own_memory *, int s);
/** The next act. goes_on_s[s]: 0, or the time until which chaos stops process s; a stopped process is not ready to
 *  join. @collective{none} */
struct membership_act next_membership(const struct members *, const double *goes_on_s);
/** Print a line about the epoch of MEMBERS_CHANGE, which is open. now: the epoch before. @collective{none} */
void next_membership_is_open(const struct members *, const struct membership *now, const struct membership_act *);
