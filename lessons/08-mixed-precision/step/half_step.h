/* The contract of the exercise "step": an optimizer step with fp16 gradients. As in ZeRO-1, weights are divided among
 * the ranks of a group: each rank owns n weights that no other rank has. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/device/dtype.h"

#include <stdbool.h>

struct half_options { double lr, clip, scale; };             /* scale: the factor of the loss */
struct half_result { bool skipped; double norm; };           /* norm of the true gradient, before clipping; NaN when
                                                              * skipped */

/** One step of gradient descent with clipping:
 *
 *     g = gradient / scale                                norm = |g| over all ranks' weights
 *     master -= lr min(1, clip / (norm + 1e-6)) g         weight = round(master)
 *
 *  If any rank's gradient has an infinity or a NaN, no rank changes its weights, and all ranks set skipped.
 *  fp16_to_float and fp16_from_float convert.
 *  @param weight (n) fp16, written    @param master (n) fp32 copy of the weights, written
 *  @param gradient (n) fp16, of scale times the loss; borrowed, not changed
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status half_step(const struct group *group, const struct half_options *, int64_t n, uint16_t *weight,
                      float *master, const uint16_t *gradient, struct half_result *out);
