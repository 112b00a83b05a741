#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/cost.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/kernels.h"
#include "lib/ops/moe/packed_product.h"
#include "lib/ops/shapes.h"

static bool is_packed(const struct call *call) { return call->step->n_in == 2; }

static enum status expect_counts(const struct call *call, const struct axis *x, const struct axis *experts) {
    TRY(shape_expect_tags(call, 1, "EPN"));
    const struct axis *counts = call->in[1].type->shape.axis;
    if (x[0].n != 1 || !axis_same(&x[0], &counts[0]) || x[1].n != counts[1].n || counts[2].n != experts->n)
        return shape_refuse(call, "the counts are of other senders or experts");
    return OK;
}

static enum status expert_linear_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type, *w = call->weight[0].type;
    const int rows = 3, kept = w->shape.n_axes - 2;                  /* E P R; the axes of W between E and C */
    const struct axis *experts = &w->shape.axis[0];
    TRY(shape_expect_tags(call, 0, x->shape.axis[rows].tag == 'F' ? "EPRF" : "EPRC"));
    if (kept < 1 || rows + kept > MAX_AXES) return shape_refuse(call, "the weight is no matrix per expert");
    if (!axis_same(&x->shape.axis[rows], &experts[1 + kept]) ||
        (!is_packed(call) && !axis_same(&x->shape.axis[0], experts)))
        return shape_refuse(call, "the weight has other experts or channels than the input");
    if (is_packed(call)) TRY(expect_counts(call, x->shape.axis, experts));
    if (x->dtype != w->dtype) return shape_refuse(call, "input and weight have different dtypes");
    *out = *x;
    out->shape.n_axes = rows + kept;
    for (int i = 0; i < kept; i++) out->shape.axis[rows + i] = experts[1 + i];
    return OK;
}

/* ---- which rows ---- */
/* Rows are in boxes. Padded: one box for each expert; packed: one box from each sender. */
struct sizes { int64_t E, boxes, rows; };
static struct sizes sizes_of(const struct call *call) {
    const struct axis *x = call->in[0].type->shape.axis;
    struct sizes s = {call->weight[0].type->shape.axis[0].n, x[0].n, x[1].n * x[2].n};
    if (is_packed(call)) s.boxes = x[1].n, s.rows = x[2].n;
    return s;
}

/* Rows of x that one product multiplies with W[e]; if packed, the rows of expert e in one box. */
struct rows { int64_t e, first, n; };

/* The rows of expert e in a box; e = E: the unused rows, which no rank sent. */
static struct rows packed_rows(const struct call *call, const struct sizes *s, int64_t box, int64_t e) {
    const int32_t *count = (const int32_t *)call->in[1].data + box * s->E;
    struct rows r = {e, box * s->rows, 0};
    for (int64_t i = 0; i < e; i++) r.first += count[i];
    r.n = e < s->E ? count[e] : (box + 1) * s->rows - r.first;
    return r;
}

/* ---- the product of some rows and one expert ---- */
/* The product for all rows of a box, the largest that may run. */
static struct gemm expert_gemm(const struct call *call, enum row_kind kind) {
    struct sizes s = sizes_of(call);
    int64_t R = s.rows, C = call->in[0].type->shape.axis[3].n, K = type_n(call->weight[0].type) / (s.E * C);
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

/* a, b and c of a product; each is a tensor of rows, or has a matrix for each expert. */
struct operands { const struct tensor *a, *b, *c; };

static void *at(const struct tensor *x, const struct call *call, const struct sizes *s, const struct rows *r) {
    bool by_expert = x == &call->weight[0] || x == &call->dweight[0];
    int64_t bytes = type_bytes(x->type);
    return (char *)x->data + (by_expert ? r->e * (bytes / s->E) : r->first * (bytes / (s->boxes * s->rows)));
}

static enum status clear(const struct call *call, void *from, int64_t bytes) {
    return bytes > 0 ? call->device->clear(call->device, from, bytes) : OK;
}

/* c becomes the product, or c + the product if g.beta is 1. A matrix that is a sum over no rows becomes zero. */
static enum status multiply(const struct call *call, struct gemm g, const struct operands *x, const struct sizes *s,
                            const struct rows *r) {
    void *a = at(x->a, call, s, r), *b = at(x->b, call, s, r), *c = at(x->c, call, s, r);
    bool by_expert = x->c == &call->dweight[0];
    if (r->n == 0)
        return by_expert && g.beta == 0 ? clear(call, c, g.m * g.n * (int64_t)dtype_size(g.c_dtype)) : OK;
    *(by_expert ? &g.k : &g.m) = r->n;
    WITH_CUDA(if (call->on == DEVICE_CUDA) return gemm_cuda_run(&g, call->device, a, b, NULL, c, call->work);)
    return gemm_run(&g, a, b, NULL, c, call->work);
}

static enum status each_box(const struct call *call, struct gemm g, const struct operands *x) {
    struct sizes s = sizes_of(call);
    for (int64_t e = 0; e < s.E; e++) {
        struct rows r = {e, e * s.rows, s.rows};
        TRY(multiply(call, g, x, &s, &r));
    }
    return OK;
}

static enum status each_box_packed(const struct call *call, struct gemm g, const struct operands *x) {
    struct sizes s = sizes_of(call);
    bool by_expert = x->c == &call->dweight[0];
    for (int64_t box = 0; box < s.boxes; box++) {
        for (int64_t e = 0; e < s.E; e++) {
            struct rows r = packed_rows(call, &s, box, e);
            TRY(multiply(call, g, x, &s, &r));
        }
        struct rows unused = packed_rows(call, &s, box, s.E);
        if (by_expert) g.beta = 1;                                   /* the next box adds */
        else if (g.beta == 0)
            TRY(clear(call, at(x->c, call, &s, &unused), unused.n * g.n * (int64_t)dtype_size(g.c_dtype)));
    }
    return OK;
}

#ifdef TRIVIUM_CUDA
/* The counts are on the GPU, so a kernel finds the sizes of the products. */
static enum status packed_on_cuda(const struct call *call, struct gemm g, const struct operands *x) {
    static packed_product_kernel *const kernels[N_DTYPES] = {[FP64] = packed_product_cuda_fp64,
                                                             [FP32] = packed_product_cuda_fp32,
                                                             [BF16] = packed_product_cuda_bf16,
                                                             [FP16] = packed_product_cuda_fp16};
    struct sizes s = sizes_of(call);
    struct packed_product p = {g, s.boxes, s.E, s.rows, call->in[1].data, x->a->data, x->b->data, x->c->data};
    return kernels[g.ab_dtype](&p, call->device);
}
#endif

static enum status each_product(const struct call *call, enum row_kind kind, struct operands x) {
    struct gemm g = expert_gemm(call, kind);
    g.c_dtype = x.c->type->dtype;
    TRY(op_touch_work(call, kind));
    WITH_CUDA(if (is_packed(call) && call->on == DEVICE_CUDA) return packed_on_cuda(call, g, &x);)
    return is_packed(call) ? each_box_packed(call, g, &x) : each_box(call, g, &x);
}
static enum status expert_linear_forward(const struct call *call) {
    return each_product(call, ROW_FORWARD, (struct operands){&call->in[0], &call->weight[0], &call->out[0]});
}
static enum status expert_linear_backward_input(const struct call *call) {
    return each_product(call, ROW_BACKWARD_INPUT, (struct operands){&call->dout[0], &call->weight[0], &call->din[0]});
}
static enum status expert_linear_backward_weight(const struct call *call) {
    return each_product(call, ROW_BACKWARD_WEIGHT, (struct operands){&call->dout[0], &call->in[0], &call->dweight[0]});
}

static int64_t expert_linear_work(const struct call *call, enum row_kind kind) {
    struct gemm g = expert_gemm(call, kind);
    return gemm_work(&g, call->on, call->n_threads);
}

static struct cost expert_linear_cost(const struct call *call, enum row_kind kind) {
    struct gemm g = expert_gemm(call, kind);
    struct cost cost = cost_traffic(call, kind);
    cost_product(&cost, g.m, g.n, g.k, sizes_of(call).boxes);
    return cost;
}

/* One function for all types and devices: both are arguments of the product. */
#define KERNELS {expert_linear_forward, expert_linear_backward_input, expert_linear_backward_weight}

const struct op op_expert_linear = {
    .name = "expert_linear",
    .typing = TYPING_PRODUCT,
    .shape = expert_linear_shape,
    .needs = {.bi_in = IN(1), .bi_weight = WEIGHT(0), .bw_in = IN(0) | IN(1)},
    .no_grad_in = IN(1),
    .has_backward_input = true,
    .has_backward_weight = true,
    .sets_dweight = WEIGHT(0),
    .defer_weight = true,
    .work = expert_linear_work,
    .cost = expert_linear_cost,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE(KERNELS), WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE(KERNELS))},
};

/* ---- bias ---- */
static enum status expert_bias_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type, *b = call->weight[0].type;
    const int rows = 3, kept = b->shape.n_axes - 1;
    const struct axis *experts = &b->shape.axis[0];
    bool fits = kept >= 1 && x->shape.n_axes == rows + kept && x->shape.axis[1].tag == 'P' && experts->tag == 'E' &&
                (is_packed(call) || axis_same(&x->shape.axis[0], experts));
    for (int i = 0; fits && i < kept; i++) fits = axis_same(&x->shape.axis[rows + i], &experts[1 + i]);
    if (!fits) return shape_refuse(call, "the bias is not one vector per expert, as wide as a row");
    if (is_packed(call)) TRY(expect_counts(call, x->shape.axis, experts));
    if (x->dtype != b->dtype) return shape_refuse(call, "input and bias have different dtypes");
    *out = *x;
    return OK;
}

DECLARE_KERNELS_FBW(expert_bias, cpu);
DECLARE_KERNELS_FBW(expert_bias, cuda);

const struct op op_expert_bias = {
    .name = "expert_bias",
    .typing = TYPING_LOCAL,
    .shape = expert_bias_shape,
    .needs = {.bw_in = IN(1)},
    .no_grad_in = IN(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_VIEW,
    .has_backward_input = true,
    .has_backward_weight = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(expert_bias, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(expert_bias, cuda))},
};
