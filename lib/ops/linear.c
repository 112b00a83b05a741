#include "lib/ops/linear.h"
#include "lib/base/integer.h"
#include "lib/ops/cost.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

/* The number of trailing axes that have the same tags in x and W; these are summed over. x and W each
 * keep at least one axis. */
static int summed_axes(const struct shape *x, const struct shape *w) {
    int n = 0;
    while (n < x->n_axes - 1 && n < w->n_axes - 1 && x->axis[x->n_axes - 1 - n].tag == w->axis[w->n_axes - 1 - n].tag)
        n++;
    return n;
}

static int64_t axes_n(const struct shape *s, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= s->axis[i].n;
    return n;
}

struct linear_sizes linear_sizes(const struct call *call) {
    const struct shape *x = &call->in[0].type->shape, *w = &call->weight[0].type->shape;
    int summed = summed_axes(x, w);
    struct linear_sizes s = {axes_n(x, 0, x->n_axes - summed), axes_n(w, 0, w->n_axes - summed),
                             axes_n(w, w->n_axes - summed, w->n_axes)};
    return s;
}

static bool bias_fits(const struct shape *b, const struct shape *w, int n_axes) {
    bool fits = b->n_axes == n_axes;
    for (int i = 0; fits && i < n_axes; i++) fits = axis_same(&b->axis[i], &w->axis[i]);
    return fits;
}

enum status linear_infer(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type, *w = call->weight[0].type;
    int summed = summed_axes(&x->shape, &w->shape), kept_x = x->shape.n_axes - summed,
        kept_w = w->shape.n_axes - summed;
    if (summed == 0) return shape_refuse(call, "the last axes differ");
    for (int i = 0; i < summed; i++)
        if (!axis_same(&x->shape.axis[kept_x + i], &w->shape.axis[kept_w + i]))
            return shape_refuse(call, "the summed axis is sharded differently in the two");
    if (kept_x + kept_w > MAX_AXES) return shape_refuse(call, "the output has more than 5 axes");
    if (call->step->n_weight > 1 &&
        (!bias_fits(&call->weight[1].type->shape, &w->shape, kept_w) || call->weight[1].type->dtype != w->dtype))
        return shape_refuse(call, "the bias has not the leading axes and dtype of the weight");
    *out = *x;
    out->dtype = w->dtype;
    out->shape.n_axes = kept_x + kept_w;
    for (int i = 0; i < kept_w; i++) out->shape.axis[kept_x + i] = w->shape.axis[i];
    return OK;
}

static enum status linear_shape(const struct call *call, struct type out[MAX_OUT]) {
    if (call->in[0].type->dtype != call->weight[0].type->dtype)
        return shape_refuse(call, "input and weight have different dtypes");
    return linear_infer(call, out);
}

/* The leaves of the sum over axes from .. to-1 of W: those of the first axis that has leaves. */
static struct gemm_leaves leaves_of(const struct shape *w, int from, int to) {
    for (int i = from; i < to; i++) {
        const struct axis *a = &w->axis[i];
        if (!a->leaves) continue;
        int64_t within = axes_n(w, i + 1, to);
        return (struct gemm_leaves){axis_leaves_here(a), axes_n(w, from, i), axis_leaf(a) * within,
                                    axis_real_n(a) * within};
    }
    return (struct gemm_leaves){0};
}

struct gemm linear_gemm(const struct call *call, enum row_kind kind) {
    struct linear_sizes s = linear_sizes(call);
    enum dtype dtype = call->weight[0].type->dtype;
    const struct shape *w = &call->weight[0].type->shape;
    int kept = w->n_axes - summed_axes(&call->in[0].type->shape, w);
    struct gemm g = {.alpha = 1, .ab_dtype = dtype, .c_dtype = dtype, .plain = call->plain_gemm};
    switch (kind) {
    case ROW_BACKWARD_INPUT:
        g.m = s.R, g.n = s.N, g.k = s.K;
        g.beta = call->accumulate & 1;
        g.leaves = leaves_of(w, 0, kept);
        break;
    case ROW_BACKWARD_WEIGHT:
        g.m = s.K, g.n = s.N, g.k = s.R, g.transpose_a = true;
        g.beta = !(call->fresh & 1);
        break;
    default:
        g.m = s.R, g.n = s.K, g.k = s.N, g.transpose_b = true;
        g.leaves = leaves_of(w, kept, w->n_axes);
    }
    return g;
}

/* 64 rows are enough work for a thread block. 256 chunks are enough blocks for the largest GPU, even with few
 * columns. */
struct linear_chunks linear_chunks(const struct call *call) {
    const int64_t least_rows = 64, most_chunks = 256;
    struct linear_sizes s = linear_sizes(call);
    struct linear_chunks c = {ceil_div(s.R, most_chunks), 0, 0};
    if (c.rows < least_rows) c.rows = least_rows;
    c.chunks = ceil_div(s.R, c.rows);
    c.bytes = c.chunks * s.K * (int64_t)dtype_size(dtype_accumulator(call->in[0].type->dtype));
    return c;
}

/* On CUDA the partial sums of db are computed after the product on the stream, so they reuse its workspace. The fused
 * product writes its own db behind the workspace (linear_cuda.c). */
static int64_t linear_work(const struct call *call, enum row_kind kind) {
    struct gemm g = linear_gemm(call, kind);
    int64_t bytes = gemm_work(&g, call->on, call->n_threads), sums = 0;
    if (call->on == DEVICE_CUDA && kind == ROW_BACKWARD_WEIGHT && call->step->n_weight > 1) {
        sums = linear_chunks(call).bytes;
        bytes += g.m * (int64_t)dtype_size(dtype_accumulator(g.ab_dtype));
    }
    return bytes > sums ? bytes : sums;
}

void linear_cost_product(const struct linear_sizes *s, enum row_kind kind, struct cost *cost) {
    switch (kind) {
    case ROW_BACKWARD_INPUT: cost_product(cost, s->R, s->N, s->K, 1); break;
    case ROW_BACKWARD_WEIGHT: cost_product(cost, s->K, s->N, s->R, 1); break;
    default: cost_product(cost, s->R, s->K, s->N, 1);
    }
}

static struct cost linear_cost(const struct call *call, enum row_kind kind) {
    struct linear_sizes s = linear_sizes(call);
    struct cost cost = cost_traffic(call, kind);
    linear_cost_product(&s, kind, &cost);
    return cost;
}

DECLARE_KERNELS_FBW(linear, cpu);

/* One function for all types, because cuBLASLt takes the type as an argument. */
kernel linear_forward_cuda, linear_backward_input_cuda, linear_backward_weight_cuda;
#define CUDA_KERNELS {linear_forward_cuda, linear_backward_input_cuda, linear_backward_weight_cuda}

const struct op op_linear = {
    .name = "linear",
    .typing = TYPING_PRODUCT,
    .shape = linear_shape,
    .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)},
    .has_backward_input = true,
    .has_backward_weight = true,
    .sets_dweight = WEIGHT(0),
    .defer_weight = true,
    .work = linear_work,
    .cost = linear_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(linear, cpu),
                WITH_CUDA([DEVICE_CUDA] = {[FP64] = CUDA_KERNELS, [FP32] = CUDA_KERNELS,
                                           [BF16] = CUDA_KERNELS, [FP16] = CUDA_KERNELS})},
};
