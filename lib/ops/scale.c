#include "lib/ops/scale.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

DECLARE_KERNELS_FB(scale, cpu);
DECLARE_KERNELS_FB(scale, cuda);

const struct op op_scale = {
    .name = "scale",
    .typing = TYPING_LOCAL,
    .rule = RULE_SCALE,
    .shape = shape_as_input,
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(scale, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(scale, cuda))},
};
