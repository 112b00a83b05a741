#include "lib/ops/activation.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

DECLARE_KERNELS_FB(relu, cpu);
DECLARE_KERNELS_FB(relu, cuda);

const struct op op_relu = {
    .name = "relu",
    .typing = TYPING_LOCAL,
    .shape = shape_as_input,
    .needs = {.bi_out = OUT(0)},           /* y > 0 where x > 0, and the next product keeps y anyway */
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(relu, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(relu, cuda))},
};
