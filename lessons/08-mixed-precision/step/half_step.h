/* The contract of the exercise "step": what the optimizer does with fp16 gradients. Weights are divided among the ranks
 * of a group, as ZeRO-1 does: each rank has n of its own, and no other rank has them. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/device/dtype.h"

#include <stdbool.h>

struct half_options { double lr, clip, scale; };             /* scale: what the loss was multiplied by */
struct half_result { bool skipped; double norm; };           /* norm of the true gradient, before clipping; NaN when
                                                              * skipped */

/** One step of gradient descent with clipping:
 *
 *     g = gradient / scale                                norm = |g| over all ranks' weights
 *     master -= lr min(1, clip / (norm + 1e-6)) g         weight = round(master)
 *
 *  If any rank's gradient holds an infinity or a NaN, no rank changes anything, and all say so: skipped.
 *  @param weight (n) fp16, written    @param master (n) fp32, the weights as they are remembered, written
 *  @param gradient (n) fp16, of scale times the loss; borrowed, not changed    fp16_to_float and fp16_from_float
 *  convert
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status half_step(const struct group *group, const struct half_options *, int64_t n, uint16_t *weight,
                      float *master, const uint16_t *gradient, struct half_result *out);
