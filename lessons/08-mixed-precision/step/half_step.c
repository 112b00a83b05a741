/* An optimizer step with fp16 gradients and an fp32 master copy, for you to write. half_step.h is the contract; the
 * theory is in lesson 08.
 *
 * Take care of five points. Do not divide by the scale in 16 bits. The norm is of all ranks' gradients, without the
 * scale. All ranks skip, or none. Updates are added to the master copy. A rank without weights still calls the group's
 * collectives. comm_all_reduce(group, &x, 1, FP64, COMM_SUM or COMM_MAX) combines a double over the group.
 *
 *   make grade LESSON=08 FILE=lessons/08-mixed-precision/step/half_step.c */
#include "lessons/08-mixed-precision/step/half_step.h"

#include <math.h>

enum status half_step(const struct group *group, const struct half_options *o, int64_t n, uint16_t *weight,
                      float *master, const uint16_t *gradient, struct half_result *out) {
    (void)group, (void)o, (void)n, (void)weight, (void)master, (void)gradient, (void)out;
    return FAIL(E_TODO, "half_step is not written yet");
}
