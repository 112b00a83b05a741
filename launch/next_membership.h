/* Planned epochs. The agent of one host, or the lighthouse of several, calls next_membership at each turn. */
#pragma once

#include "lib/comm/direct/job.h"

/* The state of the job. memory: the ranks' memory, or the lighthouse's copy. n_at_first: processes from this slot on
 * start later. least: the fewest ranks that continue. there[s]: process s lives. next_membership sets `told[s]` when it
 * prints that s may not leave yet, and `left[s]` when s has left and must be ended. */
struct members {
    struct own_memory *memory;
    int n_slots, n_at_first, least;
    struct membership_shape shape;
    const bool *there;
    bool *told, *left;
};

/* MEMBERS_DRAIN: ask the ranks to end this epoch. MEMBERS_CHANGE: open epoch `next`, then call next_membership_is_open.
 * MEMBERS_END: end process `slot`. */
enum membership_what { MEMBERS_STAY, MEMBERS_DRAIN, MEMBERS_CHANGE, MEMBERS_END };
/* slot: for MEMBERS_CHANGE, the slot that leaves, or -1 */
struct membership_act { enum membership_what what; int slot; struct membership next; };

/* Why no epoch can be opened. Arguments: the ranks that are left, those that can go on, and --elastic */
#define TOO_FEW                                                                                                        \
    "%d ranks are left, of which %d can go on (in whole replicas, which the batch divides by), and --elastic %d "      \
    "needs more"

/** How a job that began with n ranks may shrink. Until rank 0 has written the shape, all ranks count as one replica, so
 *  that a spare replaces a dead rank, and without a spare the job ends. @collective{none} */
struct membership_shape members_shape(const struct own_memory *, int n);
/** Set alive[n_slots]: which live processes may be members after a death. Spares that have left may not, if this epoch
 *  is committed. Spares that started later may not before they run. @collective{none} */
void members_alive(const struct members *, const struct membership *now, bool committed, bool *alive);
/** Should live process s move (still.h)? Yes, if it runs, or if it is starting in a dead rank's place, because the
 *  other ranks wait for it. @collective{none} */
bool member_should_move(const struct own_memory *, int s);
/** The next act. goes_on_s[s]: 0, or until when chaos stops process s, which cannot join then. @collective{none} */
struct membership_act next_membership(const struct members *, const double *goes_on_s);
/** After MEMBERS_CHANGE has opened its epoch, print a line about it. now: the epoch before. @collective{none} */
void next_membership_is_open(const struct members *, const struct membership *now, const struct membership_act *);
