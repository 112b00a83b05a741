/* SGD with momentum, and SGD by the gradient's sign. For each element, with g its gradient times the multiplier:
 *
 *   g = g + weight_decay w                         (L2: the decay also enters the momentum)
 *   b = momentum b + g                             b = g at the first step, because b starts as 0
 *   w = w - lr b
 *
 * Without momentum b is g, and there is no state. By the sign: w = w - lr sign(g), with sign(0) = 0.
 *
 * Source: Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning"; lr multiplies b
 * and not g, as in torch.optim.SGD. Bernstein et al. 2018, "signSGD". */
#include "lib/ops/optimizer_factors.h"
#include "lib/ops/optimizer_kernels.h"

DECLARE_OPTIMIZER(sgd);
DECLARE_OPTIMIZER(sgd_plain);

static struct optimizer_factors factors_of(const struct optimizer_settings *a) {
    return (struct optimizer_factors){.decay = {0, a->weight_decay}, .x = {[MOMENTUM] = a->momentum, [LR] = a->lr}};
}

static struct optimizer_factors sign_factors(const struct optimizer_settings *a) {
    return (struct optimizer_factors){.x = {[LR] = a->lr, [SIGN] = 1}};
}

const struct optimizer optimizer_sgd_plain = {
    .name = "sgd", .reads = {"momentum"}, .factors = factors_of, OPTIMIZER_KERNELS(sgd_plain)};

const struct optimizer optimizer_sgd = {
    .name = "sgd-momentum", .reads = {"momentum"}, .plain = &optimizer_sgd_plain, .n_states = 1,
    .state = {{"momentum", ".momentum_buffer"}}, .factors = factors_of, OPTIMIZER_KERNELS(sgd)};

const struct optimizer optimizer_sign = {.name = "sign", .reads = {NULL}, .whole = true, .apart = true,
                                         .factors = sign_factors, OPTIMIZER_KERNELS(sgd_plain)};
