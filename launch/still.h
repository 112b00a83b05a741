/* Finds ranks that do not move. A rank's line of the job's memory has a beat, which the rank increments whenever it
 * works for its transport. A rank that should move and whose beat does not change for --hang-timeout is stopped or
 * stuck, and its agent kills it. Time during which the agent itself was stopped does not count. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* All zero: not checked yet. */
struct still { unsigned beat; double moved_s; };

/** Check once. gap_s: the time since the previous check; hang_s: the longest time without a change of the beat.
 *  @return whether that time has passed; the time then starts again */
bool still_too_long(struct still *, unsigned beat, bool should_move, double now_s, double gap_s, double hang_s);
/** Kill the process, and print a line with its state: stopped, sleeping, computing. */
void still_kill(int slot, pid_t, double hang_s);
