#include "lib/ops/fp8.h"

#include "lib/base/integer.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/linear.h"
#include "lib/ops/shapes.h"

/* ---- cast_fp8 ---- */
static enum status cast_fp8_shape(const struct call *call, struct type out[MAX_OUT]) {
    out[0] = *call->in[0].type;
    out[0].dtype = FP8_E4M3;
    return OK;
}

DECLARE_KERNELS_FB(cast_fp8, cpu);

const struct op op_cast_fp8 = {
    .name = "cast_fp8",
    .rule = RULE_FP8,
    .shape = cast_fp8_shape,
    .backward_alias = ALIAS_VIEW,
    .alias_in = 0,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(cast_fp8, cpu)},
};

/* ---- linear_fp8 ---- */
static enum status linear_fp8_shape(const struct call *call, struct type out[MAX_OUT]) {
    if (call->in[0].type->dtype != FP8_E4M3) return shape_refuse(call, "the input is not in E4M3");
    return linear_infer(call, out);
}

struct fp8_work fp8_work(const struct call *call, enum row_kind kind) {
    const int64_t line = 64;                             /* bytes of a cache line */
    struct gemm g = linear_gemm(call, kind);
    int64_t size = (int64_t)dtype_size(g.ab_dtype);
    struct fp8_work w = {.a = round_up(gemm_work(&g, DEVICE_CPU, call->n_threads), line)};
    w.b = w.a + round_up(g.m * g.k * size, line);
    w.bytes = w.b + g.k * g.n * size;
    return w;
}

static int64_t linear_fp8_work(const struct call *call, enum row_kind kind) { return fp8_work(call, kind).bytes; }

/* dx is in the model's dtype, which x is not. */
static struct cost linear_fp8_cost(const struct call *call, enum row_kind kind) {
    struct linear_sizes s = linear_sizes(call);
    struct cost cost = cost_traffic(call, kind);
    if (kind == ROW_BACKWARD_INPUT) cost.bytes += (double)(type_bytes(call->din[0].type) - type_n(call->in[0].type));
    cost.flops = 2.0 * (double)s.R * (double)s.K * (double)s.N;
    return cost;
}

DECLARE_KERNELS_FBW(linear_fp8, cpu);

const struct op op_linear_fp8 = {
    .name = "linear_fp8",
    .rule = RULE_FP8,
    .shape = linear_fp8_shape,
    .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)},
    .has_backward_input = true,
    .has_backward_weight = true,
    .sets_dweight = WEIGHT(0),
    .defer_weight = true,
    .work = linear_fp8_work,
    .cost = linear_fp8_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(linear_fp8, cpu)},
};
