#include "lib/ops/add_position.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status add_position_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type, *p = call->weight[0].type;
    TRY(shape_expect_tags(call, 0, "BTC"));
    if (p->shape.n_axes != 2 || p->shape.axis[0].tag != 'T' || !axis_same(&p->shape.axis[1], &x->shape.axis[2]))
        return shape_refuse(call, "the table's axes must be (T, C)");
    const struct axis *t = &x->shape.axis[1], *table = &p->shape.axis[0];
    if (t->first < table->first || axis_global(t, t->n - 1) >= table->first + table->n)
        return shape_refuse(call, "the sequence is longer than the position table");
    if (x->dtype != p->dtype) return shape_refuse(call, "input and weight have different dtypes");
    out[0] = out[1] = *x;
    out[1].dtype = UINT8;
    return OK;
}

DECLARE_KERNELS_FBW(add_position, cpu);
DECLARE_KERNELS_FBW(add_position, cuda);

const struct op op_add_position = {
    .name = "add_position",
    .typing = TYPING_LOCAL,
    .rule = RULE_DROPOUT,
    .shape = add_position_shape,
    .needs = {.bi_out = OUT(1), .bw_out = OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "mask"},
    .dropout_out = OUT(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .has_backward_weight = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(add_position, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(add_position, cuda))},
};
