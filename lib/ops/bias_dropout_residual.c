#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/columns.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status bias_dropout_residual_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(call, 0, "BTC"));
    TRY(shape_expect_tags(call, 1, "BTC"));
    if (call->step->n_weight > 0) TRY(shape_expect_vector(call, 0));
    if (!shape_same(&call->in[0].type->shape, &call->in[1].type->shape) ||
        call->in[0].type->dtype != call->in[1].type->dtype)
        return shape_refuse(call, "x and residual differ in type");
    out[0] = out[1] = *call->in[0].type;
    out[1].dtype = UINT8;
    return OK;
}

/* A GPU sums the bias gradient in slices of rows. */
static int64_t bias_dropout_residual_work(const struct call *call, enum row_kind kind) {
    const struct type *x = call->in[0].type;
    int64_t C = x->shape.axis[2].n;
    if (call->on != DEVICE_CUDA || kind != ROW_BACKWARD_WEIGHT) return 0;
    return column_sum_work(type_n(x) / C, C, x->dtype, 1);
}

DECLARE_KERNELS_FBW(bias_dropout_residual, cpu);
DECLARE_KERNELS_FBW(bias_dropout_residual, cuda);

/* The residual's gradient is dy, so din[1] is a view of dout[0]. If din[1] has other memory (accumulate),
 * backward_input writes it. */
const struct op op_bias_dropout_residual = {
    .name = "bias_dropout_residual",
    .typing = TYPING_LOCAL,
    .rule = RULE_DROPOUT,
    .shape = bias_dropout_residual_shape,
    .needs = {.bi_out = OUT(1), .bw_out = OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "mask"},
    .dropout_out = OUT(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_VIEW,
    .alias_in = 1,
    .has_backward_input = true,
    .has_backward_weight = true,
    .work = bias_dropout_residual_work,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(bias_dropout_residual, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(bias_dropout_residual, cuda))},
};

const struct op op_dropout_residual = {
    .name = "dropout_residual",
    .typing = TYPING_LOCAL,
    .rule = RULE_DROPOUT,
    .shape = bias_dropout_residual_shape,
    .needs = {.bi_out = OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "mask"},
    .dropout_out = OUT(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_VIEW,
    .alias_in = 1,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(bias_dropout_residual, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(bias_dropout_residual, cuda))},
};
