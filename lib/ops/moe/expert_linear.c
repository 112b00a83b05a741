#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/cost.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status expert_linear_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type, *w = call->weight[0].type;
    const int rows = 3, kept = w->shape.n_axes - 2;                  /* E P R; what W has between E and C */
    TRY(shape_expect_tags(call, 0, x->shape.axis[rows].tag == 'F' ? "EPRF" : "EPRC"));
    if (kept < 1 || rows + kept > MAX_AXES) return shape_refuse(call, "the weight is no matrix per expert");
    if (!axis_same(&x->shape.axis[0], &w->shape.axis[0]) || !axis_same(&x->shape.axis[rows], &w->shape.axis[1 + kept]))
        return shape_refuse(call, "the weight has other experts or channels than the input");
    if (x->dtype != w->dtype) return shape_refuse(call, "input and weight have different dtypes");
    *out = *x;
    out->shape.n_axes = rows + kept;
    for (int i = 0; i < kept; i++) out->shape.axis[rows + i] = w->shape.axis[1 + i];
    return OK;
}

static int64_t n_experts(const struct call *call) { return call->in[0].type->shape.axis[0].n; }

/* The product of one expert. */
static struct gemm expert_gemm(const struct call *call, enum row_kind kind) {
    int64_t E = n_experts(call), C = call->in[0].type->shape.axis[3].n, R = type_n(call->in[0].type) / (E * C);
    int64_t K = type_n(call->weight[0].type) / (E * C);
    enum dtype dtype = call->in[0].type->dtype;
    struct gemm g = {.alpha = 1, .ab_dtype = dtype, .c_dtype = dtype, .plain = call->plain_gemm};
    switch (kind) {
    case ROW_BACKWARD_INPUT:
        g.m = R, g.n = C, g.k = K;
        g.beta = call->accumulate & 1;
        break;
    case ROW_BACKWARD_WEIGHT:
        g.m = K, g.n = C, g.k = R, g.transpose_a = true;
        g.beta = !(call->fresh & 1);
        break;
    default: g.m = R, g.n = K, g.k = C, g.transpose_b = true;
    }
    return g;
}

static enum status multiply(const struct call *call, const struct gemm *g, const void *a, const void *b, void *to) {
    WITH_CUDA(if (call->on == DEVICE_CUDA) return gemm_cuda_run(g, call->device, a, b, NULL, to, call->work);)
    return gemm_run(g, a, b, NULL, to, call->work);
}

static enum status each_expert(const struct call *call, enum row_kind kind, const struct tensor *a,
                               const struct tensor *b, const struct tensor *to) {
    int64_t E = n_experts(call), a_bytes = type_bytes(a->type) / E, b_bytes = type_bytes(b->type) / E;
    struct gemm g = expert_gemm(call, kind);
    g.c_dtype = to->type->dtype;
    TRY(op_touch_work(call, kind));
    for (int64_t e = 0; e < E; e++)
        TRY(multiply(call, &g, (char *)a->data + e * a_bytes, (char *)b->data + e * b_bytes,
                     (char *)to->data + e * (type_bytes(to->type) / E)));
    return OK;
}
static enum status expert_linear_forward(const struct call *call) {
    return each_expert(call, ROW_FORWARD, &call->in[0], &call->weight[0], &call->out[0]);
}
static enum status expert_linear_backward_input(const struct call *call) {
    return each_expert(call, ROW_BACKWARD_INPUT, &call->dout[0], &call->weight[0], &call->din[0]);
}
static enum status expert_linear_backward_weight(const struct call *call) {
    return each_expert(call, ROW_BACKWARD_WEIGHT, &call->dout[0], &call->in[0], &call->dweight[0]);
}

static int64_t expert_linear_work(const struct call *call, enum row_kind kind) {
    struct gemm g = expert_gemm(call, kind);
    return gemm_work(&g, call->on, call->n_threads);
}

static struct cost expert_linear_cost(const struct call *call, enum row_kind kind) {
    struct gemm g = expert_gemm(call, kind);
    struct cost cost = cost_traffic(call, kind);
    cost.flops = 2.0 * (double)g.m * (double)g.n * (double)g.k * (double)n_experts(call);
    return cost;
}

/* One function for all types and devices: the product is told both. */
#define KERNELS {expert_linear_forward, expert_linear_backward_input, expert_linear_backward_weight}

const struct op op_expert_linear = {
    .name = "expert_linear",
    .shape = expert_linear_shape,
    .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)},
    .has_backward_input = true,
    .has_backward_weight = true,
    .sets_dweight = WEIGHT(0),
    .defer_weight = true,
    .work = expert_linear_work,
    .cost = expert_linear_cost,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE(KERNELS), WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE(KERNELS))},
};
