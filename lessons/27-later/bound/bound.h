/* Which workers may continue: the rule of a parameter server with bounded staleness, and the contract of this exercise.
 *
 * Worker w computes clocks[w] gradients, one per clock, counted from 0. In a clock it asks for weights, gets them at
 * once or later, computes, and pushes its gradient, which is applied at once; then the clock is finished. Workers may
 * have different numbers of clocks, because their shares of the data differ. A worker that has finished all its clocks
 * has *left*, and never pushes again.
 *
 *   slowest      the fewest finished clocks of a worker that has not left; a worker that has not sent a message yet has
 *                finished 0 clocks
 *   the rule     worker w gets weights for its clock t = finished[w] if t - slowest <= staleness
 *
 * staleness INT64_MAX is no bound (async). */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { BOUND_MOST = 8 };
struct bound {
    int n_workers;                  /* at most BOUND_MOST */
    int64_t staleness;              /* 0 .. INT64_MAX */
    int64_t clocks[BOUND_MOST];     /* all clocks of worker w, at least 1 */
    int64_t finished[BOUND_MOST];   /* finished clocks of worker w */
    bool waits[BOUND_MOST];         /* worker w has asked for weights, and not got them yet */
};

/** The fewest finished clocks of a worker that has not left; INT64_MAX if all have left. @collective{none} */
int64_t bound_slowest(const struct bound *);

/** Does the rule allow weights for the next clock of worker w now, whether it has asked or not? w has not left.
 *  @collective{none} */
bool bound_allows(const struct bound *, int w);

/** Worker w asks for weights. Set go[v] for every worker v: whether v gets weights now, and stops waiting. A server
 *  calls bound_asked or bound_pushed once for each message, and never between messages. So each call must release every
 *  worker that the rule allows. @collective{none} @errors none */
enum status bound_asked(struct bound *, int w, bool *go);

/** Worker w pushes the gradient of `clock`, which is then finished. Set go[v] as in bound_asked. If `clock` is not w's
 *  next clock, the push has come twice or too early: return E_INTERNAL ("worker 3 ..."), and change nothing.
 *  @collective{none} @errors E_INTERNAL */
enum status bound_pushed(struct bound *, int w, int64_t clock, bool *go);

/** The largest number of updates by other workers between the weights that a gradient is computed with and its own
 *  update, with n_workers workers of many clocks. INT64_MAX without a bound, if there are several workers.
 *  @collective{none} */
int64_t bound_most_stale(int n_workers, int64_t staleness);
