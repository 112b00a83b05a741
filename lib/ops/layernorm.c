#include "lib/ops/layernorm.h"
#include "lib/base/integer.h"
#include "lib/ops/columns.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status layernorm_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *x = call->in[0].type;
    int last = x->shape.n_axes - 1;
    if (axis_is_sharded(&x->shape.axis[last])) return shape_refuse(call, "the axis to normalise over is sharded");
    TRY(shape_expect_vector(call, 0));
    TRY(shape_expect_vector(call, 1));
    out[0] = out[1] = *x;
    out[1].dtype = dtype_accumulator(x->dtype);
    out[1].shape.axis[last] = axis_whole('2', 2);
    return OK;
}

struct layernorm_rows layernorm_backward_rows(int64_t C, enum dtype d) {
    int64_t of_warp = LAYERNORM_BACKWARD_KEPT(dtype_size(d)) * column_tile(d), warps = ceil_div(C, of_warp);
    int64_t rows = LAYERNORM_BACKWARD_WARPS(dtype_size(d)) / warps;
    return rows < 4 ? (struct layernorm_rows){0, 0} : (struct layernorm_rows){(int)warps, rows < 8 ? (int)rows : 8};
}

/* A block of the fused kernel takes a slice of whole rows. The largest GPU (132 multiprocessors) runs 264 blocks of 8
 * warps at a time, or 132 larger ones. */
int64_t layernorm_slices(int64_t R, int64_t C, enum dtype d) {
    struct layernorm_rows rows = layernorm_backward_rows(C, d);
    int64_t most = column_slices(R, 1, d), at_once = rows.warps * rows.rows > 8 ? 132 : 264;
    return rows.warps == 0 ? column_slices(R, C, d) : most < at_once ? most : at_once;
}

/* A GPU sums the weights' gradients in slices of rows. */
static int64_t layernorm_work(const struct call *call, enum row_kind kind) {
    const struct type *x = call->in[0].type;
    int64_t C = x->shape.axis[x->shape.n_axes - 1].n;
    if (call->on != DEVICE_CUDA || kind != ROW_BACKWARD_WEIGHT) return 0;
    return 2 * layernorm_slices(type_n(x) / C, C, x->dtype) * C * (int64_t)dtype_size(dtype_accumulator(x->dtype));
}

DECLARE_KERNELS_FBW(layernorm, cpu);
DECLARE_KERNELS_FBW(layernorm, cuda);

/* Forward and backward finish a row's sums before they write the row, so y may overwrite x, and dx dy. */
const struct op op_layernorm = {
    .name = "layernorm",
    .rule = RULE_NORM,
    .shape = layernorm_shape,
    .needs = {.bi_in = IN(0), .bi_out = OUT(1), .bi_weight = WEIGHT(0), .bw_in = IN(0), .bw_out = OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "stat"},
    .typing = TYPING_LOCAL,
    .mixes = "C",
    .statistic_out = OUT(1),
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .has_backward_weight = true,
    .work = layernorm_work,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(layernorm, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(layernorm, cuda))},
};
