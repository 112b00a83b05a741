/* How often to save: the contract of this exercise. The theory is in lesson 12, "How often".
 *
 * A job trains for `tau` seconds, saves for `save` seconds, trains again, and so on. It fails once in `mtbf` seconds of
 * wall-clock time on average, at any moment with equal probability, while it trains or saves (a Poisson process). A
 * failure loses all work since the last complete save. The job trains again after `restart` seconds, in which it does
 * not fail. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct faults { double save, restart, mtbf; };   /* seconds; mtbf > 0 */

/** *mtbf = the mtbf of a job on n nodes, each of which fails once in node_mtbf seconds. One failing node ends the job.
 *  n >= 1.  @collective{none} */
enum status interval_mtbf_of_job(double node_mtbf, int n, double *mtbf);

/** *fraction = the first-order estimate of the wasted fraction of time: saves, work that failures undo, restarts. Valid
 *  if save and tau are much smaller than mtbf.
 *  @collective{none} */
enum status interval_wasted(struct faults f, double tau, double *fraction);

/** *tau = the interval that makes interval_wasted least (Young 1974). save > 0.  @collective{none} */
enum status interval_best(struct faults f, double *tau);

/** *steps = the best interval in whole steps of step_s seconds: of the two neighbors of interval_best the one with less
 *  interval_wasted, and at least 1.  @collective{none} */
enum status interval_steps(struct faults f, double step_s, int64_t *steps);

/** *fraction = the exact wasted fraction of time: 1 - tau / (expected seconds until tau seconds of work are done and
 *  saved).
 *  @collective{none} */
enum status interval_wasted_exactly(struct faults f, double tau, double *fraction);
