/* Stragglers: ranks that compute slower than their peers for a while.
 *
 *   own time of a step = its seconds - those in which this rank waited for others
 *
 * A synchronous step is as slow as its slowest rank; all others wait, so that only own times tell them apart. Every 20
 * steps (a window) the ranks' mean own times are compared. A rank is slow in a window if it takes more than 1.2 times
 * the median of its peers: ranks of the same pipeline stage, which have the same work (servers on ranks of their own
 * are peers of each other); the median of an even number is the lower of the two in the middle. After 3 slow windows in
 * a row it is a straggler, and is reported then, and again each time that number has doubled.
 *
 * What breaks: a stage with one rank has no peers. Where ranks outnumber cores they take each other's time, which looks
 * like own time: nothing is compared there, but under --inject. Other programs on a machine make its ranks slow, and
 * they are reported, too. On a GPU the host does not see its stream's waits: not measured. */
#pragma once

#include "lib/base/status.h"
#include "lib/run/plan.h"
#include <stdbool.h>

enum { STRAGGLER_STEPS = 20, STRAGGLER_WINDOWS = 3 };

/* A rank: its stage, slow windows in a row so far, and its own time in this window in medians. */
struct straggler_rank { int stage, n_slow; double ratio; bool told; };

/** One window: own_s[0..n) seconds of the ranks. Sets ratio (NaN: no peers), n_slow, and `told` on the ranks to
 *  report in this window. @errors E_MEMORY */
enum status straggler_window(struct straggler_rank *of, int n, const double *own_s);

/* --inject slow=RANK,FACTOR: this rank takes FACTOR times as long to compute, by waiting. link=RANK,FACTOR: its
 * emulated links take FACTOR times as long per byte, both ways (comm_links.h). */
enum straggler_what { INJECT_NOTHING, INJECT_SLOW_RANK, INJECT_SLOW_LINK };
struct straggler_inject { enum straggler_what what; int rank; double factor; };
/** "slow=2,1.5" or "link=2,10" for n ranks; "": nothing. Pure. @errors E_CONFIG with the value and what may stand
 *  there */
enum status straggler_inject_parse(const char *text, int n, struct straggler_inject *out);
