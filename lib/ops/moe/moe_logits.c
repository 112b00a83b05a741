#include "lib/ops/moe/moe_logits.h"
#include "lib/ops/columns.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status moe_logits_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type, *w = call->weight[0].type;
    TRY(shape_expect_tags(call, 0, "BTC"));
    if (w->shape.n_axes != 2 || !axis_same(&w->shape.axis[1], &x->shape.axis[2]))
        return shape_refuse(call, "the weight is not one row of channels per expert");
    if (w->dtype != dtype_accumulator(x->dtype)) return shape_refuse(call, "the weight is not kept in full precision");
    if (call->step->n_weight > 1) {
        const struct type *b = call->weight[1].type;
        if (b->shape.n_axes != 1 || !axis_same(&b->shape.axis[0], &w->shape.axis[0]) || b->dtype != w->dtype)
            return shape_refuse(call, "the bias is not one number per expert, of the weight's dtype");
    }
    out[0] = *x;
    out[0].dtype = w->dtype;
    out[0].shape.axis[2] = w->shape.axis[0];
    return OK;
}

/* On a GPU, the weight's gradient is summed in slices of tokens, whose sums need scratch. */
static int64_t moe_logits_work(const struct call *call, enum row_kind kind) {
    const struct type *x = call->in[0].type;
    if (call->on != DEVICE_CUDA || kind != ROW_BACKWARD_WEIGHT) return 0;
    return column_sum_work(type_n(x) / x->shape.axis[2].n, type_n(call->weight[0].type), x->dtype, 1);
}

DECLARE_KERNELS_FBW(moe_logits, cpu);
DECLARE_KERNELS_FBW(moe_logits, cuda);

const struct op op_moe_logits = {
    .name = "moe_logits",
    .typing = TYPING_PRODUCT,
    .shape = moe_logits_shape,
    .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)},
    .has_backward_input = true,
    .has_backward_weight = true,
    .work = moe_logits_work,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(moe_logits, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(moe_logits, cuda))},
};
