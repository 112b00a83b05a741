/* The arithmetic of a step: the contract of lesson 00's exercise.
 *
 *     global-batch sequences per step = dp replicas x microbatches x micro-batch        tokens = global-batch x seq */
#pragma once

#include "lib/base/status.h"

#include <stdint.h>

struct batch { int64_t global_batch, micro_batch, dp, seq; };   /* all at least 1; seq in tokens, the others in
                                                                 * sequences and replicas */

/* A function that fails does not change *out. */

/** Sequences that each of the dp replicas works on in a step.
 *  @errors E_CONFIG if dp does not divide global_batch; the sentence has both values, as "dp=3" and
 *  "global-batch=16" */
enum status batch_share(const struct batch *, int64_t *out);

/** Microbatches into which a replica splits its share.
 *  @errors as batch_share; E_CONFIG if micro_batch does not divide the share; the sentence has "micro-batch=3" and the
 *  share */
enum status batch_microbatches(const struct batch *, int64_t *out);

/** Tokens of a step, over all replicas. */
enum status batch_tokens(const struct batch *, int64_t *out);

/** Model flops utilisation, a fraction: the flops that the model needs for the step's tokens, over the flops that the
 *  machine can do in that time.
 *  @param flops_per_token forward and backward   @param step_s seconds of the step
 *  @param peak_flops flops per second of all devices together */
enum status batch_mfu(const struct batch *, double flops_per_token, double step_s, double peak_flops, double *out);
