#include "lib/ops/rmsnorm.h"
#include "lib/ops/columns.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status rmsnorm_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type;
    int last = x->shape.n_axes - 1;
    if (axis_is_sharded(&x->shape.axis[last])) return shape_refuse(call, "the axis to normalise over is sharded");
    TRY(shape_expect_vector(call, 0));
    out[0] = out[1] = *x;
    out[1].dtype = dtype_accumulator(x->dtype);
    out[1].shape.axis[last] = axis_whole('1', 1);
    return OK;
}

/* A GPU sums the weight's gradient in slices of rows. */
static int64_t rmsnorm_work(const struct call *call, enum row_kind kind) {
    const struct type *x = call->in[0].type;
    int64_t C = x->shape.axis[x->shape.n_axes - 1].n;
    if (call->on != DEVICE_CUDA || kind != ROW_BACKWARD_WEIGHT) return 0;
    return column_sum_work(type_n(x) / C, C, x->dtype, 1);
}

DECLARE_KERNELS_FBW(rmsnorm, cpu);
DECLARE_KERNELS_FBW(rmsnorm, cuda);

/* Forward and backward finish a row's sums before they write the row, so y may overwrite x, and dx dy. */
const struct op op_rmsnorm = {
    .name = "rmsnorm",
    .typing = TYPING_LOCAL,
    .mixes = "CLQ",
    .rule = RULE_NORM,
    .shape = rmsnorm_shape,
    .needs = {.bi_in = IN(0), .bi_out = OUT(1), .bi_weight = WEIGHT(0), .bw_in = IN(0), .bw_out = OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "stat"},
    .statistic_out = OUT(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .has_backward_weight = true,
    .work = rmsnorm_work,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(rmsnorm, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(rmsnorm, cuda))},
};

/* ---- norms of queries and keys ---- */
enum status rmsnorm_heads_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct shape *x = &call->in[0].type->shape, *g = &call->weight[0].type->shape;
    int n = x->n_axes, heads = n - 2;
    TRY(shape_expect_tags(call, 0, n == 5 ? "BT2JD" : "BTHD"));
    if (g->n_axes < 1 || g->n_axes > 2) return shape_refuse(call, "the weight is of a head, or of all heads");
    for (int i = 0; i < g->n_axes; i++)
        if (!axis_same(&g->axis[i], &x->axis[n - g->n_axes + i]))
            return shape_refuse(call, "the weight's axes are not the last of in[0]");
    if (axis_is_sharded(&x->axis[n - 1])) return shape_refuse(call, "the axis to normalise over is sharded");
    if (call->weight[0].type->dtype != call->in[0].type->dtype)
        return shape_refuse(call, "input and weight have different dtypes");
    out[0] = out[1] = *call->in[0].type;
    out[1].dtype = dtype_accumulator(out[0].dtype);
    out[1].shape.n_axes = 2;
    if (g->n_axes == 1) out[1].shape.axis[out[1].shape.n_axes++] = x->axis[heads];
    out[1].shape.axis[out[1].shape.n_axes++] = axis_whole('1', 1);
    return OK;
}

static enum status head_shape(const struct call *call, struct type out[MAX_OUT]) {
    if (call->weight[0].type->shape.n_axes != 1) return shape_refuse(call, "the weight is that of a head");
    return rmsnorm_heads_shape(call, out);
}

static enum status heads_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct shape *x = &call->in[0].type->shape;
    if (axis_is_sharded(&x->axis[x->n_axes - 2])) return shape_refuse(call, "the axis to normalise over is sharded");
    return rmsnorm_heads_shape(call, out);
}

int64_t rmsnorm_heads_work(const struct call *call, enum row_kind kind) {
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    enum dtype d = call->in[0].type->dtype;
    if (kind == ROW_BACKWARD_INPUT) return rows.n * (int64_t)dtype_size(dtype_accumulator(d));
    return call->on == DEVICE_CUDA && kind == ROW_BACKWARD_WEIGHT ? column_sum_work(rows.n, rows.C, d, 1) : 0;
}

#define PIECES(device)                                                                                                 \
    extern const struct rmsnorm_pieces rmsnorm_pieces_##device##_fp64, rmsnorm_pieces_##device##_fp32,                 \
        rmsnorm_pieces_##device##_bf16, rmsnorm_pieces_##device##_fp16
PIECES(cpu);
PIECES(cuda);
#define PIECES_OF(device)                                                                                              \
    {[FP64] = &rmsnorm_pieces_##device##_fp64, [FP32] = &rmsnorm_pieces_##device##_fp32,                               \
     [BF16] = &rmsnorm_pieces_##device##_bf16, [FP16] = &rmsnorm_pieces_##device##_fp16}

static const struct rmsnorm_pieces *pieces_of(const struct call *call) {
    static const struct rmsnorm_pieces *const pieces[N_DEVICES][N_DTYPES] = {
        [DEVICE_CPU] = PIECES_OF(cpu), WITH_CUDA([DEVICE_CUDA] = PIECES_OF(cuda))};
    return pieces[call->on][op_dtype(call)];
}

enum status rmsnorm_heads_forward(const struct call *call, rmsnorm_add *add) {
    TRY(pieces_of(call)->squares(call, call->out[1].data));
    if (add) TRY(add(call, call->out[1].data));
    return pieces_of(call)->scale(call);
}
enum status rmsnorm_heads_backward(const struct call *call, rmsnorm_add *add) {
    TRY(pieces_of(call)->products(call, call->work));
    if (add) TRY(add(call, call->work));
    return pieces_of(call)->gradient(call, call->work);
}
enum status rmsnorm_heads_weight(const struct call *call) { return pieces_of(call)->weight(call); }
static enum status heads_forward(const struct call *call) { return rmsnorm_heads_forward(call, NULL); }
static enum status heads_backward(const struct call *call) { return rmsnorm_heads_backward(call, NULL); }

#define NORM_OF_HEADS(called, mixed, its_shape)                                                                        \
    {.name = called, .typing = TYPING_LOCAL, .mixes = mixed, .rule = RULE_NORM, .shape = its_shape,                    \
     .needs = {.bi_in = IN(0), .bi_out = OUT(1), .bi_weight = WEIGHT(0), .bw_in = IN(0), .bw_out = OUT(1)},            \
     .no_grad_out = OUT(1), .out_name = {[1] = "stat"}, .statistic_out = OUT(1), .forward_alias = ALIAS_IN_PLACE,      \
     .backward_alias = ALIAS_IN_PLACE, .has_backward_input = true, .has_backward_weight = true,                        \
     .work = rmsnorm_heads_work, .cost = cost_traffic,                                                                 \
     .kernels = {[DEVICE_CPU] = EVERY_DTYPE({heads_forward, heads_backward, rmsnorm_heads_weight}),                    \
                 WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({heads_forward, heads_backward, rmsnorm_heads_weight}))}}
const struct op op_rmsnorm_head = NORM_OF_HEADS("rmsnorm_head", "D", head_shape);
const struct op op_rmsnorm_heads = NORM_OF_HEADS("rmsnorm_heads", "HJD", heads_shape);
