#include "lib/ops/rmsnorm.h"
#include "lib/ops/columns.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status rmsnorm_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type;
    int last = x->shape.n_axes - 1;
    if (axis_is_sharded(&x->shape.axis[last])) return shape_refuse(call, "the axis to normalise over is sharded");
    TRY(shape_expect_vector(call, 0));
    out[0] = out[1] = *x;
    out[1].dtype = dtype_accumulator(x->dtype);
    out[1].shape.axis[last] = axis_whole('1', 1);
    return OK;
}

/* A GPU sums the weight's gradient in slices of rows. */
static int64_t rmsnorm_work(const struct call *call, enum row_kind kind) {
    const struct type *x = call->in[0].type;
    int64_t C = x->shape.axis[x->shape.n_axes - 1].n;
    if (call->on != DEVICE_CUDA || kind != ROW_BACKWARD_WEIGHT) return 0;
    return column_sum_work(type_n(x) / C, C, x->dtype, 1);
}

DECLARE_KERNELS_FBW(rmsnorm, cpu);
DECLARE_KERNELS_FBW(rmsnorm, cuda);

/* Forward and backward finish a row's sums before they write the row, so y may overwrite x, and dx dy. */
const struct op op_rmsnorm = {
    .name = "rmsnorm",
    .typing = TYPING_LOCAL,
    .mixes = "C",
    .rule = RULE_NORM,
    .shape = rmsnorm_shape,
    .needs = {.bi_in = IN(0), .bi_out = OUT(1), .bi_weight = WEIGHT(0), .bw_in = IN(0), .bw_out = OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "stat"},
    .statistic_out = OUT(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .has_backward_weight = true,
    .work = rmsnorm_work,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(rmsnorm, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(rmsnorm, cuda))},
};
