/* AdamW. For each element, at step t = 1, 2, ..., with g its gradient times the multiplier:
 *
 *   w = w - lr weight_decay w                      (decoupled decay)
 *   m = beta1 m + (1 - beta1) g                    v = beta2 v + (1 - beta2) g^2
 *   w = w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2; order of operations as
 * torch.optim.AdamW. */
#include "lib/ops/optimizer_factors.h"
#include "lib/ops/optimizer_kernels.h"
#include <math.h>

DECLARE_OPTIMIZER(adamw);

static struct optimizer_factors factors_of(const struct optimizer_settings *a) {
    double t = (double)a->step;
    return (struct optimizer_factors){.decay = {1, 1 - a->lr * a->weight_decay},
                                      .x = {[BETA1] = a->beta1,
                                            [ONE_MINUS_BETA1] = 1 - a->beta1,
                                            [BETA2] = a->beta2,
                                            [ONE_MINUS_BETA2] = 1 - a->beta2,
                                            [STEP_SIZE] = a->lr / (1 - pow(a->beta1, t)),
                                            [DENOMINATOR] = 1 / sqrt(1 - pow(a->beta2, t)),
                                            [EPS] = a->eps}};
}

const struct optimizer optimizer_adamw = {
    .name = "adamw", .reads = {"beta1", "beta2", "eps"}, .n_states = 2,
    .state = {{"moment1", ".exp_avg"}, {"moment2", ".exp_avg_sq"}},
    .factors = factors_of, OPTIMIZER_KERNELS(adamw)};
