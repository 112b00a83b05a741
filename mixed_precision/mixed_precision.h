/* Mixed precision: compute in bf16 or fp16, keep masters and states in fp32. See mixed_precision.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_mixed_precision;

struct mixed_precision_options {
    int grad_fp32;                       /* accumulate gradients in fp32 */
    double scale, init, min;             /* of the loss scale. scale 0: dynamic, from init down to min */
    int64_t window, hysteresis;
};
static inline struct mixed_precision_options *mixed_precision_options(const struct plan *p) {
    return plan_own(p, &technique_mixed_precision.options);
}
