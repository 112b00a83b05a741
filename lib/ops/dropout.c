/* Dropout as an op, y = m x (dropout.h). If dropout follows an addition, as in bias_dropout_residual, the adding op
 * does both in one pass. */
#include "lib/ops/dropout.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status dropout_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct shape *x = &call->in[0].type->shape;
    TRY(shape_expect_tags(call, 0, x->n_axes == 3 && x->axis[2].tag == 'K' ? "BTK" : "BTC"));
    out[0] = out[1] = *call->in[0].type;
    out[1].dtype = UINT8;
    return OK;
}

DECLARE_KERNELS_FB(dropout, cpu);
DECLARE_KERNELS_FB(dropout, cuda);

const struct op op_dropout = {
    .name = "dropout",
    .typing = TYPING_LOCAL,
    .rule = RULE_DROPOUT,
    .shape = dropout_shape,
    .needs = {.bi_out = OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "mask"},
    .dropout_out = OUT(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(dropout, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(dropout, cuda))},
};
