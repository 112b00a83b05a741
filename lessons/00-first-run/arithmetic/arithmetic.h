/* The arithmetic of a step: the contract of lesson 00's exercise.
 *
 *     global-batch sequences per step = dp replicas x microbatches x micro-batch        tokens = global-batch x seq */
#pragma once

#include "lib/base/status.h"

#include <stdint.h>

struct batch { int64_t global_batch, micro_batch, dp, seq; };   /* all at least 1; seq in tokens, the others in
                                                                 * sequences and replicas */

/* Where a function fails, *out stays what it was. */

/** Sequences that each of the dp replicas works on in a step.
 *  @errors E_CONFIG if dp does not divide global_batch; the sentence holds both values, as "dp=3" and
 *  "global-batch=16" */
enum status batch_share(const struct batch *, int64_t *out);

/** Microbatches in which a replica works its share off.
 *  @errors as above; E_CONFIG if micro_batch does not divide the share; the sentence holds "micro-batch=3" and the
 *  share */
enum status batch_microbatches(const struct batch *, int64_t *out);

/** Tokens of a step, over all replicas. */
enum status batch_tokens(const struct batch *, int64_t *out);

/** Model flops utilisation: flops that the model needs for the step's tokens, over what the machine could have done in
 *  that time. A fraction.
 *  @param flops_per_token forward and backward   @param step_s seconds of the step
 *  @param peak_flops flops per second of all devices together */
enum status batch_mfu(const struct batch *, double flops_per_token, double step_s, double peak_flops, double *out);
