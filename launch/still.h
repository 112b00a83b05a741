/* Finds ranks that are stopped or stuck. Each rank has a beat in the job's memory, which it increments whenever it
 * works for its transport. If the beat of a rank that should move does not change for --hang-timeout, the agent kills
 * the rank. Time during which the agent itself was stopped does not count. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* All zero: not checked yet. */
struct still { unsigned beat; double moved_s; };

/** Check once. gap_s: the time since the previous check; hang_s: the longest time without a change of the beat.
 *  @return whether the beat has not changed for hang_s; if so, the time starts again */
bool still_too_long(struct still *, unsigned beat, bool should_move, double now_s, double gap_s, double hang_s);
/** Kill the process, and print a line with its state: stopped, sleeping, computing. */
void still_kill(int slot, pid_t, double hang_s);
