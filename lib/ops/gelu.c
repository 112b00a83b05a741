#include "lib/ops/gelu.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

DECLARE_KERNELS_FB(gelu, cpu);
DECLARE_KERNELS_FB(gelu, cuda);
DECLARE_KERNELS_FB(gelu_erf, cpu);
DECLARE_KERNELS_FB(gelu_erf, cuda);

const struct op op_gelu = {
    .name = "gelu",
    .typing = TYPING_LOCAL,
    .shape = shape_as_input,
    .needs = {.bi_in = IN(0)},
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(gelu, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(gelu, cuda))},
};

const struct op op_gelu_erf = {
    .name = "gelu_erf",
    .typing = TYPING_LOCAL,
    .shape = shape_as_input,
    .needs = {.bi_in = IN(0)},
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(gelu_erf, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(gelu_erf, cuda))},
};
