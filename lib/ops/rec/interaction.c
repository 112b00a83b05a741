#include "lib/ops/rec/interaction.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status check(const struct call *call) {
    const struct type *x = call->in[0].type, *pooled = call->in[1].type;
    TRY(shape_expect_tags(call, 1, "PFBD"));
    if (x->shape.n_axes != 3 || !axis_same(&x->shape.axis[0], &pooled->shape.axis[0]) ||
        !axis_same(&x->shape.axis[1], &pooled->shape.axis[2]))
        return shape_refuse(call, "the dense part is not of the samples of the pooled vectors");
    return x->dtype == pooled->dtype ? OK : shape_refuse(call, "the dense part and the vectors differ in dtype");
}

static enum status result(const struct call *call, int64_t width, struct type out[MAX_OUT]) {
    out[0] = *call->in[0].type;
    out[0].shape.axis[2] = axis_whole('I', width);
    return OK;
}

static enum status interaction_dots_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct axis *pooled = call->in[1].type->shape.axis;
    TRY(check(call));
    int64_t F = pooled[1].n, D = pooled[3].n;
    if (call->in[0].type->shape.axis[2].n != D)
        return shape_refuse(call, "the dense part is not as wide as a vector");
    return result(call, D + (F + 1) * F / 2, out);
}

static enum status interaction_concat_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct axis *pooled = call->in[1].type->shape.axis;
    TRY(check(call));
    return result(call, call->in[0].type->shape.axis[2].n + pooled[1].n * pooled[3].n, out);
}

static enum status interaction_sum_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(check(call));
    if (call->in[0].type->shape.axis[2].n != 1 || call->in[1].type->shape.axis[3].n != 1)
        return shape_refuse(call, "the wide part adds numbers, vectors of length 1");
    out[0] = *call->in[0].type;
    return OK;
}

/* Forward: the products of all pairs. Backward: each pair adds to two gradients. */
static struct cost interaction_dots_cost(const struct call *call, enum row_kind kind) {
    const struct axis *pooled = call->in[1].type->shape.axis;
    struct cost cost = cost_traffic(call, kind);
    int64_t samples = pooled[0].n * pooled[2].n, n = pooled[1].n + 1, D = pooled[3].n;
    if (kind == ROW_BACKWARD_INPUT) cost_product(&cost, n, D, n, samples);
    else cost_product(&cost, n, n, D, samples);
    return cost;
}

DECLARE_KERNELS_FB(interaction_dots, cpu);
DECLARE_KERNELS_FB(interaction_concat, cpu);
DECLARE_KERNELS_FB(interaction_sum, cpu);
#define FB(name) {[FP64] = KERNELS_FB_OF(name, cpu_fp64), [FP32] = KERNELS_FB_OF(name, cpu_fp32)}

const struct op op_interaction_dots = {
    .name = "interaction_dots", .typing = TYPING_LOCAL, .mixes = "FDI", .shape = interaction_dots_shape,
    .needs = {.bi_in = IN(0) | IN(1)}, .has_backward_input = true, .cost = interaction_dots_cost,
    .kernels = {[DEVICE_CPU] = FB(interaction_dots)}};

const struct op op_interaction_concat = {
    .name = "interaction_concat", .typing = TYPING_LOCAL, .mixes = "FDI", .shape = interaction_concat_shape,
    .has_backward_input = true, .cost = cost_traffic, .kernels = {[DEVICE_CPU] = FB(interaction_concat)}};

const struct op op_interaction_sum = {
    .name = "interaction_sum", .typing = TYPING_LOCAL, .mixes = "FD", .shape = interaction_sum_shape,
    .has_backward_input = true, .cost = cost_traffic, .kernels = {[DEVICE_CPU] = FB(interaction_sum)}};
