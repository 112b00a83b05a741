/* Two ranks that live, and have lost the connection between them: what the agent of one host, and the lighthouse of
 * several, do at each turn. */
#ifndef TRIVIUM_LAUNCH_RECONNECT_H
#define TRIVIUM_LAUNCH_RECONNECT_H

#include "launch/next_membership.h"

/* since_s: when the slots in `lost` were first seen to live without each other; epoch: opened for such a loss;
 * ended: killed for one. -1: none. */
struct reconnect { int lost[2], ended; int32_t epoch; double since_s; };
#define RECONNECT_NOTHING ((struct reconnect){{-1, -1}, -1, -1, 0})

/** PLAN_OPEN: an epoch of the same ranks, in which all connections are new; when it is open, reconnect_is_open.
 *  PLAN_END: that could not be made either, so this process, which is one of the two, is killed; that is said.
 *  @collective{none} */
struct plan_act reconnect_look(struct reconnect *, const struct plan_view *, double now_s);
/** The epoch of PLAN_OPEN is: say so. now: the one before. @collective{none} */
void reconnect_is_open(struct reconnect *, const struct epoch *now, const struct plan_act *);

#endif
