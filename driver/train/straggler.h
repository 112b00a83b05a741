/* Stragglers: ranks that compute slower than their peers for a while.
 *
 *   own time of a step = seconds of the step - seconds in which this rank waited for other ranks
 *
 * In a synchronous step all ranks wait for the slowest, so only own times show which rank is slow. Every 20 steps (a
 * window) the ranks compare their mean own times. A rank is slow in a window if its own time exceeds 1.2 times the
 * median of its peers. Peers are ranks of the same pipeline stage, because they have the same work; servers on separate
 * ranks are peers of each other. The median of an even number of ranks is the lower of the two middle values. A rank is
 * a straggler after 3 slow windows in a row; it is reported then, and again after 6, 12, ... windows.
 *
 * What breaks: a stage with one rank has no peers. If ranks outnumber cores, time spent waiting for a core looks like
 * own time; then ranks are compared only under --inject. Ranks that other programs slow down are reported, too. On a
 * GPU own times are not measured, because the host does not see its stream's waits. */
#pragma once

#include "lib/base/status.h"
#include "lib/run/plan.h"
#include <stdbool.h>

enum { STRAGGLER_STEPS = 20, STRAGGLER_WINDOWS = 3 };

/* A rank: its stage, slow windows in a row so far, and its own time in this window relative to the median. */
struct straggler_rank { int stage, n_slow; double ratio; bool told; };

/** Compare the ranks' own times own_s[0..n) of one window. Sets ratio (NaN: no peers) and n_slow, and `told` for the
 *  ranks to report in this window. @errors E_MEMORY */
enum status straggler_window(struct straggler_rank *of, int n, const double *own_s);

/* --inject slow=RANK,FACTOR: the rank waits, so that its steps take FACTOR times as long. link=RANK,FACTOR: the rank's
 * emulated links take FACTOR times as long per byte, in both directions (comm_links.h). */
enum straggler_what { INJECT_NOTHING, INJECT_SLOW_RANK, INJECT_SLOW_LINK };
struct straggler_inject { enum straggler_what what; int rank; double factor; };
/** Parse "slow=2,1.5" or "link=2,10" for n ranks; "": nothing. Pure. @errors E_CONFIG with the value and the legal
 *  forms */
enum status straggler_inject_parse(const char *text, int n, struct straggler_inject *out);
