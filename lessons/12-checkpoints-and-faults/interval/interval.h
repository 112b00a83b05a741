/* How often to save: the contract of this exercise. The theory is in lesson 12, "How often".
 *
 * A job trains `tau` seconds, saves for `save` seconds, trains again, and so on. It fails once in `mtbf` seconds of
 * wall-clock time on average, at any moment alike, while it trains or saves (failures are a Poisson process). A failure
 * throws away everything since the last complete save; then it takes `restart` seconds until the job trains again,
 * during which nothing fails. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct faults { double save, restart, mtbf; };   /* seconds; mtbf > 0 */

/** *mtbf = that of a job of n nodes, each of which alone fails once in node_mtbf seconds; one failing node ends the
 *  job. n >= 1.  @collective{none} */
enum status interval_mtbf_of_job(double node_mtbf, int n, double *mtbf);

/** *fraction = the first-order estimate of the share of time that is wasted: in saving, in work that failures undo, in
 *  restarting. For save and tau small against mtbf.
 *  @collective{none} */
enum status interval_wasted(struct faults f, double tau, double *fraction);

/** *tau = the interval that makes interval_wasted least (Young 1974). save > 0.  @collective{none} */
enum status interval_best(struct faults f, double *tau);

/** The same in whole steps of step_s seconds: of the two neighbors the one that interval_wasted says is better, and at
 *  least 1.  @collective{none} */
enum status interval_steps(struct faults f, double step_s, int64_t *steps);

/** *fraction = the share of time that is wasted, without approximation: 1 - tau / (expected seconds until tau seconds
 *  of work are done and saved).
 *  @collective{none} */
enum status interval_wasted_exactly(struct faults f, double tau, double *fraction);
