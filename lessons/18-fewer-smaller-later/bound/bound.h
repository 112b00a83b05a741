/* Which workers may go on: the rule of a parameter server with bounded staleness, and the contract of this exercise.
 *
 * Worker w has clocks[w] gradients to compute, one per clock, counted from 0. It asks for weights, gets them at once or
 * later, computes, pushes its gradient (which is applied at once), and has then finished one clock more. Workers may
 * have different numbers of clocks: their shares of the data differ. One that has finished all of its clocks has
 * *left*: it will never push again.
 *
 *   slowest      the fewest clocks that any worker has finished which has not left; one that has not been heard from
 *                has finished none
 *   the rule     worker w gets weights for its clock t = finished[w] when t - slowest <= staleness
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
    int64_t clocks[BOUND_MOST];     /* that worker w has to do, at least 1 */
    int64_t finished[BOUND_MOST];   /* that it has done */
    bool waits[BOUND_MOST];         /* it has asked for weights, and has not got them */
};

/** The fewest clocks that a worker has finished which has not left. All have left: INT64_MAX. @collective{none} */
int64_t bound_slowest(const struct bound *);

/** Would worker w, which has not left, get weights for its next clock now? Whether it has asked does not matter.
 *  @collective{none} */
bool bound_allows(const struct bound *, int w);

/** Worker w asks for weights. go[v] is set for every worker v: does v get weights now? It has then stopped waiting.
 *  A server calls this when the message comes, and again only when another one comes: a worker that is not let go
 *  by that message's call waits. @collective{none} @errors none */
enum status bound_asked(struct bound *, int w, bool *go);

/** Worker w pushes the gradient of this clock: it has finished one more, and go[v] says whether v gets weights by
 *  that. A clock other than w's next one is a push that came twice, or too early: E_INTERNAL ("worker 3 ..."), and
 *  nothing changes.
 *  @collective{none} @errors E_INTERNAL */
enum status bound_pushed(struct bound *, int w, int64_t clock, bool *go);

/** How many updates by others may there be, at most, between the weights that a gradient was computed with and the
 *  update that it makes, with n workers of many clocks? No bound: INT64_MAX, for more than one worker.
 *  @collective{none} */
int64_t bound_most_stale(int n_workers, int64_t staleness);
