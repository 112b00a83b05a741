/* Who does not move? A rank's line of the job's memory has a beat that it counts up whenever it does anything for its
 * transport. A rank that should move and whose beat stands still (--hang-timeout) is stopped or stuck: its agent kills
 * it. While the agent itself was stopped, with the whole job, nothing counts. */
#ifndef TRIVIUM_LAUNCH_STILL_H
#define TRIVIUM_LAUNCH_STILL_H

#include <stdbool.h>
#include <sys/types.h>

/* All zero: not looked at yet. */
struct still { unsigned beat; double moved_s; };

/** One look. gap_s: since the look before; hang_s: so long it may stand still.
 *  @return whether it has stood still longer, and the count begins again then */
bool still_too_long(struct still *, unsigned beat, bool should_move, double now_s, double gap_s, double hang_s);
/** Kill it, and say so, and what it does instead: stopped, or stuck. */
void still_kill(int slot, pid_t, double hang_s);

#endif
