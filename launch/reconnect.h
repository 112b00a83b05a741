/* Handles a lost connection between two live ranks. The agent of a job on one host, or the lighthouse of a job on
 * several, calls reconnect_look at each turn. */
#pragma once

#include "launch/next_membership.h"

/* lost: the two slots; since_s: when their loss was first seen; epoch: the epoch opened after a loss; ended: the slot
 * killed after a loss. -1: none. */
struct reconnect { int lost[2], ended; int32_t epoch; double since_s; };
#define RECONNECT_NOTHING ((struct reconnect){{-1, -1}, -1, -1, 0})

/** The next act. MEMBERS_CHANGE: open an epoch of the same ranks, in which all connections are new, then call
 *  reconnect_is_open. MEMBERS_END: the new connection failed as well; kill process `slot`, one of the two. Its line is
 *  already printed. @collective{none} */
struct membership_act reconnect_look(struct reconnect *, const struct members *, double now_s);
/** After MEMBERS_CHANGE has opened its epoch, print a line about it. now: the epoch before. @collective{none} */
void reconnect_is_open(struct reconnect *, const struct membership *now, const struct membership_act *);
