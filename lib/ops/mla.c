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

/* ---- the products of decoding ---- */

/* Heads of the input and of the weight (J,W,L) are the same shard. */
static enum status product_check(const struct call *call, const struct mla_product *s) {
    const struct type *w = call->weight[0].type;
    const struct axis *x = call->in[0].type->shape.axis;
    if (x[2].n != w->shape.axis[0].n || x[2].first != w->shape.axis[0].first || w->dtype != call->in[0].type->dtype)
        return shape_refuse(call, "each head needs its own rows of the weight, of the input's type");
    if (axis_is_sharded(&x[3]) || s->N < 0 || s->U < 1) return shape_refuse(call, "a head and its rows must be whole");
    return OK;
}

static enum status absorb_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(call, 0, "BTHD"));
    struct mla_product s = mla_product(call);
    TRY(product_check(call, &s));
    if (s.S < 1) return shape_refuse(call, "a query must have channels of the shared key");
    out[0] = with_last(call->in[0].type, 'A', s.L + s.S);
    return OK;
}

static enum status expand_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(call, 0, "BTHL"));
    struct mla_product s = mla_product(call);
    TRY(product_check(call, &s));
    if (call->in[0].type->shape.axis[3].n != s.L) return shape_refuse(call, "the latents have different widths");
    out[0] = with_last(call->in[0].type, 'D', s.U);
    return OK;
}

/* A product of each head with `rows` of its rows; input, output and these rows move once. */
static struct cost product_cost(const struct call *call, int64_t rows, int64_t width) {
    const struct mla_product s = mla_product(call);
    struct cost cost = {.bytes = (double)(s.heads * (s.n * width + rows * s.L)) * (double)dtype_size(op_dtype(call))};
    cost_product(&cost, s.n, rows, s.L, s.heads);
    return cost;
}
static struct cost absorb_cost(const struct call *call, enum row_kind kind) {
    const struct mla_product s = mla_product(call);
    (void)kind;
    return product_cost(call, s.N, s.N + s.L + 2 * s.S);
}
static struct cost expand_cost(const struct call *call, enum row_kind kind) {
    const struct mla_product s = mla_product(call);
    (void)kind;
    return product_cost(call, s.U, s.L + s.U);
}

DECLARE_KERNEL(mla_absorb_forward, cpu);
DECLARE_KERNEL(mla_expand_forward, cpu);
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

#define FORWARD_ALONE(op)                                                                                              \
    {[FP64] = {op##_forward_cpu_fp64, 0, 0}, [FP32] = {op##_forward_cpu_fp32, 0, 0},                                   \
     [BF16] = {op##_forward_cpu_bf16, 0, 0}, [FP16] = {op##_forward_cpu_fp16, 0, 0}}

const struct op op_mla_absorb = {
    .name = "mla_absorb",
    .typing = TYPING_LOCAL,
    .mixes = "D",
    .rule = RULE_MLA,
    .shape = absorb_shape,
    .cost = absorb_cost,
    .kernels = {[DEVICE_CPU] = FORWARD_ALONE(mla_absorb)},
};

const struct op op_mla_expand = {
    .name = "mla_expand",
    .typing = TYPING_LOCAL,
    .mixes = "L",
    .rule = RULE_MLA,
    .shape = expand_shape,
    .cost = expand_cost,
    .kernels = {[DEVICE_CPU] = FORWARD_ALONE(mla_expand)},
};
