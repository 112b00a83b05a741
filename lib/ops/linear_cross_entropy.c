#include "lib/ops/linear_cross_entropy.h"
#include "lib/base/integer.h"
#include "lib/device/arena.h"
#include "lib/ops/cost.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/shapes.h"

/* Columns of a block of the vocabulary: wide enough for a product to run at full speed. */
enum { BLOCK_COLUMNS = 4096 };

static bool is_forward(enum row_kind kind) { return kind == ROW_FORWARD || kind == ROW_REPLAY; }

enum status linear_cross_entropy_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type, *targets = call->in[1].type, *w = call->weight[0].type;
    TRY(shape_expect_tags(call, 0, "BTC"));
    TRY(shape_expect_tags(call, 1, "BT"));
    if (call->on != DEVICE_CPU)
        return shape_refuse(call, "the loss by chunks is only there on the cpu; use loss-chunk 0");
    if (targets->dtype != INT32) return shape_refuse(call, "targets must be int32");
    for (int i = 0; i < 2; i++)
        if (!axis_same(&x->shape.axis[i], &targets->shape.axis[i]))
            return shape_refuse(call, "tokens and targets differ");
    if (w->shape.n_axes != 2 || w->shape.axis[0].tag != 'V' || !axis_same(&w->shape.axis[1], &x->shape.axis[2]))
        return shape_refuse(call, "the weight is not (V,C) with the input's channels");
    if (w->dtype != x->dtype) return shape_refuse(call, "input and weight have different dtypes");
    const struct type *b = call->step->n_weight > 1 ? call->weight[1].type : NULL;
    if (b && (b->shape.n_axes != 1 || !axis_same(&b->shape.axis[0], &w->shape.axis[0]) || b->dtype != w->dtype))
        return shape_refuse(call, "the bias has not the weight's vocabulary and dtype");
    out[0] = (struct type){dtype_accumulator(x->dtype), {1, {axis_whole('1', 1)}}};
    return OK;
}

static enum status whole_vocabulary(const struct call *call, struct type out[MAX_OUT]) {
    TRY(linear_cross_entropy_shape(call, out));
    const struct axis *vocab = &call->weight[0].type->shape.axis[0];
    if (vocab->first != 0 || vocab->n < vocab->global)
        return shape_refuse(call, "the vocabulary is sharded; use the vocabulary-parallel loss");
    return OK;
}

/* Cut the tokens into the fewest chunks of at most head.rows, all of nearly equal size. */
struct linear_cross_entropy_sizes linear_cross_entropy_sizes(const struct call *call) {
    const struct shape *w = &call->weight[0].type->shape;
    struct linear_cross_entropy_sizes s = {.R = type_n(call->in[1].type), .C = w->axis[1].n, .V = w->axis[0].n};
    int64_t most = call->step->head.rows > 0 ? min64(call->step->head.rows, s.R) : s.R,
            chunks = most ? ceil_div(s.R, most) : 1;
    s.rows = ceil_div(s.R, chunks);
    s.columns = min64(BLOCK_COLUMNS, s.V);
    return s;
}

/* ---- scratch ---- */

static int64_t product_work(const struct call *call, int64_t m, int64_t n, int64_t k, struct gemm form) {
    form.m = m, form.n = n, form.k = k, form.alpha = 1, form.ab_dtype = op_dtype(call), form.plain = call->plain_gemm;
    return gemm_work(&form, DEVICE_CPU, call->n_threads);
}

/* Scratch of the products of one chunk and one block of columns: the largest of the three products. */
static int64_t products_work(const struct call *call, int64_t rows, int64_t columns, int64_t C, bool gradient) {
    enum dtype d = op_dtype(call);
    int64_t work = product_work(call, rows, columns, C, (struct gemm){.transpose_b = true, .c_dtype = d});
    for (int beta = 0; gradient && beta < 2; beta++)
        work = max64(work, product_work(call, rows, C, columns,
                                        (struct gemm){.beta = beta, .c_dtype = dtype_accumulator(d)}));
    if (gradient) work = max64(work, product_work(call, columns, C, rows,
                                                  (struct gemm){.transpose_a = true, .beta = 1, .c_dtype = d}));
    return work;
}

struct linear_cross_entropy_scratch linear_cross_entropy_scratch(const struct call *call, enum row_kind kind) {
    struct linear_cross_entropy_sizes s = linear_cross_entropy_sizes(call);
    enum dtype d = op_dtype(call);
    bool gradient = !is_forward(kind);
    int64_t size = (int64_t)dtype_size(d), real_size = (int64_t)dtype_size(dtype_accumulator(d)), work = 0;
    int64_t last_rows = s.rows ? s.R - (s.R - 1) / s.rows * s.rows : 0,
            last_columns = s.V - (s.V - 1) / s.columns * s.columns;
    for (int i = 0; i < 4; i++)
        work = max64(work,
                     products_work(call, i & 1 ? last_rows : s.rows, i & 2 ? last_columns : s.columns, s.C, gradient));
    struct linear_cross_entropy_scratch x = {.logits = arena_align(work)};
    x.dx = x.logits + arena_align(s.rows * s.V * size);
    x.numbers = x.dx + (gradient && size != real_size ? arena_align(s.rows * s.C * real_size) : 0);
    x.bytes = x.numbers + (4 * s.R + 3 * s.rows) * real_size;
    return x;
}

int64_t linear_cross_entropy_work(const struct call *call, enum row_kind kind) {
    return linear_cross_entropy_scratch(call, kind).bytes;
}

/* The cost in training, where forward does nothing: three products, for logits, dx and dW. */
struct cost linear_cross_entropy_cost(const struct call *call, enum row_kind kind) {
    struct linear_cross_entropy_sizes s = linear_cross_entropy_sizes(call);
    struct cost cost = {0};
    if (is_forward(kind)) return cost;
    double x = (double)type_bytes(call->in[0].type), w = (double)type_bytes(call->weight[0].type);
    cost_product(&cost, s.R, s.V, s.C, 1);
    cost_product(&cost, s.R, s.C, s.V, 1);
    cost_product(&cost, s.V, s.C, s.R, 1);
    cost.bytes = 2 * x + 3 * w;                                      /* x, dx; W, and dW read and written */
    return cost;
}

/* ---- kernels: one of real.h's element types each ---- */

typedef enum status runner(const struct call *, bool gradient, vocabulary_reduce *);
extern runner linear_cross_entropy_run_cpu_fp64, linear_cross_entropy_run_cpu_fp32, linear_cross_entropy_run_cpu_bf16,
    linear_cross_entropy_run_cpu_fp16;

enum status linear_cross_entropy_run(const struct call *call, bool gradient, vocabulary_reduce *reduce) {
    static runner *const run[N_DTYPES] = {
        [FP64] = linear_cross_entropy_run_cpu_fp64, [FP32] = linear_cross_entropy_run_cpu_fp32,
        [BF16] = linear_cross_entropy_run_cpu_bf16, [FP16] = linear_cross_entropy_run_cpu_fp16};
    return run[op_dtype(call)](call, gradient, reduce);
}

static enum status forward(const struct call *call) {
    return call->training ? OK : linear_cross_entropy_run(call, false, NULL);
}
static enum status backward_input(const struct call *call) { return linear_cross_entropy_run(call, true, NULL); }

#define KERNELS {forward, backward_input, NULL}
const struct op op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .typing = TYPING_HEAD,
    .mixes = "V",
    .rule = RULE_HEAD,
    .shape = whole_vocabulary,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(0), .bi_weight = WEIGHT(0) | WEIGHT(1)},
    .no_grad_in = IN(1),
    .no_grad_out = OUT(0),
    .has_backward_input = true,
    .all_in_backward = true,
    .sets_dweight = WEIGHT(0),
    .work = linear_cross_entropy_work,
    .cost = linear_cross_entropy_cost,
    .kernels = {[DEVICE_CPU] = {[FP64] = KERNELS, [FP32] = KERNELS, [BF16] = KERNELS, [FP16] = KERNELS}},
};
