#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/moe/moe_pack.h"
#include "lib/ops/shapes.h"

static bool same_tokens(const struct axis *a, const struct axis *b) {
    return axis_same(&a[0], &b[0]) && axis_same(&a[1], &b[1]);
}

/* Rows are sharded by the mesh axes that shard their tokens. */
static enum status moe_dispatch_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct step *s = call->step;
    const struct axis *x = call->in[0].type->shape.axis;
    TRY(shape_expect_tags(call, 0, "BTC"));
    TRY(shape_expect_tags(call, 1, "BTk"));
    if (!same_tokens(x, call->in[1].type->shape.axis)) return shape_refuse(call, "the picks are of other tokens");
    struct moe_boxes boxes = moe_boxes(s, x[0].n * x[1].n);
    struct axis experts = axis_whole('E', boxes.n), sender = {.tag = 'P', .n = 1, .first = s->part};
    struct axis rows = axis_whole('R', boxes.rows);
    sender.global = s->parts;
    rows.cut = x[0].cut | x[1].cut;
    out[0] = (struct type){call->in[0].type->dtype, {4, {experts, sender, rows, x[2]}}};
    return OK;
}

static enum status moe_combine_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct axis *y = call->in[0].type->shape.axis, *t = call->in[1].type->shape.axis;
    struct moe_boxes boxes = moe_boxes(call->step, t[0].n * t[1].n);
    TRY(shape_expect_tags(call, 0, "EPRC"));
    TRY(shape_expect_tags(call, 1, "BTk"));
    TRY(shape_expect_tags(call, 2, "BTk"));
    if (y[0].n != boxes.n || y[1].n != 1 || y[2].n != boxes.rows)
        return shape_refuse(call, "it needs the places of this rank's tokens, of all experts");
    if (call->in[2].type->dtype != dtype_accumulator(call->in[0].type->dtype))
        return shape_refuse(call, "the gates are not in full precision");
    out[0] = (struct type){call->in[0].type->dtype, {3, {t[0], t[1], y[3]}}};
    return OK;
}

DECLARE_KERNELS_FB(moe_dispatch, cpu);
DECLARE_KERNELS_FB(moe_combine, cpu);
DECLARE_KERNELS_FB(moe_dispatch, cuda);
DECLARE_KERNELS_FB(moe_combine, cuda);

const struct op op_moe_dispatch = {
    .name = "moe_dispatch",
    .typing = TYPING_DISPATCH,
    .rule = RULE_MOE,
    .shape = moe_dispatch_shape,
    .needs = {.bi_in = IN(1)},
    .no_grad_in = IN(1),
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(moe_dispatch, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(moe_dispatch, cuda))},
};

const struct op op_moe_combine = {
    .name = "moe_combine",
    .typing = TYPING_COMBINE,
    .rule = RULE_MOE,
    .shape = moe_combine_shape,
    .needs = {.bi_in = IN(0) | IN(1) | IN(2)},
    .no_grad_in = IN(1),
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(moe_combine, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(moe_combine, cuda))},
};
