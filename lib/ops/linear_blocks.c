/* The ops of block-scaled products. See lib/ops/fp8.h. */
#include "lib/ops/cost.h"
#include "lib/ops/fp8.h"
#include "lib/ops/kernels.h"
#include "lib/ops/linear.h"
#include "lib/ops/shapes.h"
#include <stdio.h>

/* ---- shapes: x is (B,T,N...), W (K...,N...) ---- */
enum { TOKENS = 1, INPUTS = 2 };

/* The numbers in a row, along the axes from .. to-1 laid end to end, that no other rank's numbers interrupt, if `size`
 * divides their number and their place in the whole; else 0. */
static int64_t whole_blocks(const struct shape *s, int from, int to, int size) {
    int64_t run = 1;
    for (int i = to - 1; i >= from; i--) {
        const struct axis *a = &s->axis[i];
        int64_t all = a->n | a->first | a->turn | a->jump;           /* a multiple of 16 or 32 if each of them is */
        if (axis_is_sharded(a) && all * run % size != 0) return 0;
        run *= a->n;
    }
    return run % size == 0 ? run : 0;
}

static enum status refuse_blocks(const struct call *call, const char *what) {
    char why[240];
    snprintf(why, sizeof why,
             "blocks of %d numbers along %s would end short, or have numbers of two ranks; use a size that %d divides "
             "on every rank, fewer ranks that cut it, or fp8-recipe delayed",
             call->step->blocks.operand.size, what, call->step->blocks.operand.size);
    return shape_refuse(call, why);
}

static enum status check_input(const struct call *call) {
    const struct shape *x = &call->in[0].type->shape;
    int size = call->step->blocks.operand.size;
    if (x->n_axes <= INPUTS) return shape_refuse(call, "only inputs of samples and tokens have block scales");
    if (!whole_blocks(x, TOKENS, INPUTS, size)) return refuse_blocks(call, "tokens");
    if (!whole_blocks(x, INPUTS, x->n_axes, size)) return refuse_blocks(call, "inputs");
    return OK;
}

/* The scales have the axes of x, with one place for each block of tokens. */
static enum status cast_blocks_shape(const struct call *call, struct type out[MAX_OUT]) {
    int size = call->step->blocks.operand.size;
    TRY(check_input(call));
    out[0] = out[1] = *call->in[0].type;
    out[0].dtype = call->step->blocks.operand.element;
    out[1].dtype = UINT8;
    struct axis *t = &out[1].shape.axis[TOKENS];
    t->n /= size, t->first /= size, t->global /= size, t->turn /= size, t->jump /= size;
    return OK;
}

static enum status linear_blocks_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct shape *x = &call->in[0].type->shape, *w = &call->weight[0].type->shape;
    if (call->in[0].type->dtype != call->weight[0].type->dtype)
        return shape_refuse(call, "input and weight have different dtypes");
    TRY(linear_infer(call, out));
    TRY(check_input(call));
    if (linear_sizes(call).R != x->axis[0].n * x->axis[TOKENS].n)
        return shape_refuse(call, "only inputs of samples and tokens have block scales");
    if (!whole_blocks(w, 0, w->n_axes - (x->n_axes - INPUTS), call->step->blocks.operand.size))
        return refuse_blocks(call, "outputs");
    struct linear_sizes s = linear_sizes(call);
    if (call->on == DEVICE_CUDA && (s.R % 32 || s.K % 32 || s.N % 32))
        return shape_refuse(call,
                            "tensor cores take codes of 4 bits where 32 divides tokens, inputs and outputs of a rank");
    return OK;
}

static int64_t linear_blocks_work(const struct call *call, enum row_kind kind) { return blocks_work(call, kind).bytes; }

/* ---- cost: products read codes; casts read numbers and write codes ---- */
static struct cost linear_blocks_cost(const struct call *call, enum row_kind kind) {
    const struct block_rule *rule = &call->step->blocks;
    struct linear_sizes s = linear_sizes(call);
    double size = (double)dtype_size(call->weight[0].type->dtype), w = (double)type_n(call->weight[0].type),
           x = (double)type_n(call->in[0].type), y = (double)type_n(call->out[0].type);
    double code_x = block_bytes(&rule->operand, x), code_w = block_bytes(&rule->operand, w);
    double code_dy = block_bytes(&rule->gradient, y);
    struct cost cost = {0};
    linear_cost_product(&s, kind, &cost);
    if (kind == ROW_BACKWARD_INPUT) {
        cost.bytes = code_dy + code_w + size * x;
        cost.cast_bytes = size * (y + w) + code_dy + code_w;
    } else if (kind == ROW_BACKWARD_WEIGHT) {
        cost.bytes = code_dy + code_x + 2 * size * w;
        cost.cast_bytes = size * y + code_dy;
    } else {
        cost.bytes = code_x + code_w + size * y;
        cost.cast_bytes = size * (x + w) + code_x + code_w;
    }
    return cost;
}

/* ---- tables ---- */
DECLARE_KERNEL(cast_blocks_forward, cpu);
DECLARE_KERNELS_FBW(linear_blocks, cpu);

kernel cast_blocks_forward_cuda, linear_blocks_forward_cuda, linear_blocks_backward_input_cuda,
    linear_blocks_backward_weight_cuda;
#define CAST_CUDA {cast_blocks_forward_cuda, 0, 0}
#define LINEAR_CUDA {linear_blocks_forward_cuda, linear_blocks_backward_input_cuda, linear_blocks_backward_weight_cuda}

const struct op op_cast_blocks = {
    .name = "cast_blocks",
    .typing = TYPING_LOCAL,                                          /* a block is on one rank: check_input */
    .rule = RULE_BLOCKS,
    .shape = cast_blocks_shape,
    .no_grad_out = OUT(0) | OUT(1),
    .out_name = {[1] = "scale"},
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = {[FP64] = {cast_blocks_forward_cpu_fp64, 0, 0},
                                [FP32] = {cast_blocks_forward_cpu_fp32, 0, 0},
                                [BF16] = {cast_blocks_forward_cpu_bf16, 0, 0}},
                WITH_CUDA([DEVICE_CUDA] = {[FP32] = CAST_CUDA, [BF16] = CAST_CUDA})},
};

const struct op op_linear_blocks = {
    .name = "linear_blocks",
    .typing = TYPING_PRODUCT,
    .rule = RULE_BLOCKS,
    .shape = linear_blocks_shape,
    .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(1) | IN(2)},
    .no_grad_in = IN(1) | IN(2),
    .has_backward_input = true,
    .has_backward_weight = true,
    .sets_dweight = WEIGHT(0),
    .defer_weight = true,
    .work = linear_blocks_work,
    .cost = linear_blocks_cost,
    .kernels = {[DEVICE_CPU] = {[FP64] = KERNELS_FBW_OF(linear_blocks, cpu_fp64),
                                [FP32] = KERNELS_FBW_OF(linear_blocks, cpu_fp32),
                                [BF16] = KERNELS_FBW_OF(linear_blocks, cpu_bf16)},
                WITH_CUDA([DEVICE_CUDA] = {[FP32] = LINEAR_CUDA, [BF16] = LINEAR_CUDA})},
};
