/* An optimizer step with fp16 gradients and an fp32 master copy.
 *
 * The scaled gradients are read once. Their squares are summed in fp64, which represents 65504^2 and (6e-8)^2, and the
 * norm is divided by the scale. An all-reduce with COMM_MAX tells all ranks whether a rank has an overflow. Ranks write
 * only after that. */
#include "lessons/08-mixed-precision/step/half_step.h"

#include <math.h>

struct seen { double overflow, squares; };

static struct seen look(const uint16_t *gradient, int64_t n) {
    struct seen seen = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        double g = (double)fp16_to_float(gradient[i]);
        if (isfinite(g)) seen.squares += g * g;
        else seen.overflow = 1;
    }
    return seen;
}

enum status half_step(const struct group *group, const struct half_options *o, int64_t n, uint16_t *weight,
                      float *master, const uint16_t *gradient, struct half_result *out) {
    struct seen seen = look(gradient, n);
    TRY(comm_all_reduce(group, &seen.overflow, 1, FP64, COMM_MAX));
    TRY(comm_all_reduce(group, &seen.squares, 1, FP64, COMM_SUM));
    *out = (struct half_result){seen.overflow != 0, NAN};
    if (out->skipped) return OK;
    out->norm = sqrt(seen.squares) / o->scale;
    double factor = fmin(1, o->clip / (out->norm + 1e-6)) * o->lr / o->scale;
    for (int64_t i = 0; i < n; i++) {
        master[i] = (float)((double)master[i] - factor * (double)fp16_to_float(gradient[i]));
        weight[i] = fp16_from_float(master[i]);
    }
    return OK;
}
