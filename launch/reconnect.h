/* Two live ranks that have lost their connection. The agent of one host and the lighthouse of several call
 * reconnect_look at each turn. */
#pragma once

#include "launch/next_membership.h"

/* lost: the two slots; since_s: when their loss was first seen; epoch: the epoch opened for a loss; ended: the slot
 * killed for one. -1: none. */
struct reconnect { int lost[2], ended; int32_t epoch; double since_s; };
#define RECONNECT_NOTHING ((struct reconnect){{-1, -1}, -1, -1, 0})

/** MEMBERS_CHANGE: open an epoch of the same ranks, in which all connections are new, then call reconnect_is_open.
 *  MEMBERS_END: that connection failed as well; kill process `slot`, one of the two. A line about it has been printed.
 *  @collective{none} */
struct membership_act reconnect_look(struct reconnect *, const struct members *, double now_s);
/** Print a line about the epoch of MEMBERS_CHANGE, which is open. now: the epoch before. @collective{none} */
void reconnect_is_open(struct reconnect *, const struct membership *now, const struct membership_act *);
