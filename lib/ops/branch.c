#include "lib/ops/branch.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

/* Backward reads dy, and reads and writes dx. Forward's copy is not counted, because forward is nearly always a
 * view. */
static struct cost branch_cost(const struct call *call, enum row_kind kind) {
    bool backward = kind == ROW_BACKWARD_INPUT;
    return (struct cost){.bytes = backward ? 3 * (double)type_bytes(call->in[0].type) : 0};
}

DECLARE_KERNELS_FB(branch, cpu);
DECLARE_KERNELS_FB(branch, cuda);

const struct op op_branch = {
    .name = "branch",
    .typing = TYPING_LOCAL,
    .shape = shape_as_input,
    .forward_alias = ALIAS_VIEW,
    .backward_alias = ALIAS_VIEW,
    .has_backward_input = true,
    .cost = branch_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(branch, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(branch, cuda))},
};
