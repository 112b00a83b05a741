#include "lib/ops/mla.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static struct type with_last(const struct type *x, char tag, int64_t n) {
    struct type y = *x;
    y.shape.axis[y.shape.n_axes - 1] = axis_whole(tag, n);
    return y;
}

static enum status split_shape(const struct call *call, struct type out[MAX_OUT]) {
    struct mla_sizes s = mla_sizes(call);
    TRY(shape_expect_tags(call, 0, "BTA"));
    if (axis_is_sharded(&call->in[0].type->shape.axis[2]) || s.latent < 1 || s.shared < 1)
        return shape_refuse(call, "the latent and the shared key must be whole, and both be there");
    out[0] = with_last(call->in[0].type, 'L', s.latent);
    out[1] = with_last(call->in[0].type, 'S', s.shared);
    return OK;
}

static enum status keys_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(call, 0, "BTJW"));
    TRY(shape_expect_tags(call, 1, "BTS"));
    struct mla_sizes s = mla_sizes(call);
    const struct axis *x = call->in[0].type->shape.axis, *shared = call->in[1].type->shape.axis;
    if (!axis_same(&x[0], &shared[0]) || !axis_same(&x[1], &shared[1]) ||
        call->in[0].type->dtype != call->in[1].type->dtype)
        return shape_refuse(call, "the heads' channels and the shared key differ in samples, positions or type");
    if (axis_is_sharded(&x[3]) || axis_is_sharded(&shared[2]) || s.before < 0 || s.value < 1 || s.value > s.D)
        return shape_refuse(call, "a head must be whole, and its value no wider than its key");
    out[0] = (struct type){call->in[0].type->dtype,
                           {5, {x[0], x[1], axis_whole('2', 2), x[2], axis_whole('D', s.D)}}};
    return OK;
}

static enum status values_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(call, 0, "BTHD"));
    struct mla_sizes s = mla_sizes(call);
    if (axis_is_sharded(&call->in[0].type->shape.axis[3]) || s.value < 1 || s.value > s.D)
        return shape_refuse(call, "a head must be whole, and its value no wider than its key");
    out[0] = with_last(call->in[0].type, 'D', s.value);
    return OK;
}

DECLARE_KERNELS_FB(mla_split, cpu);
DECLARE_KERNELS_FB(mla_keys, cpu);
DECLARE_KERNELS_FB(mla_values, cpu);
DECLARE_KERNELS_FB(mla_split, cuda);
DECLARE_KERNELS_FB(mla_keys, cuda);
DECLARE_KERNELS_FB(mla_values, cuda);

const struct op op_mla_split = {
    .name = "mla_split",
    .typing = TYPING_LOCAL,
    .mixes = "A",
    .rule = RULE_MLA,
    .shape = split_shape,
    .out_name = {[1] = "shared"},
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(mla_split, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(mla_split, cuda))},
};

const struct op op_mla_keys = {
    .name = "mla_keys",
    .typing = TYPING_LOCAL,
    .mixes = "W",
    .rule = RULE_MLA,
    .shape = keys_shape,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(mla_keys, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(mla_keys, cuda))},
};

const struct op op_mla_values = {
    .name = "mla_values",
    .typing = TYPING_LOCAL,
    .mixes = "D",
    .rule = RULE_MLA,
    .shape = values_shape,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(mla_values, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(mla_values, cuda))},
};
