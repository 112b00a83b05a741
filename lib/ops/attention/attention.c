#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"
#include <math.h>

struct attention_sizes attention_sizes(const struct call *call) {
    const struct axis *a = call->in[0].type->shape.axis;
    struct attention_sizes s = {
        a[0].n, a[1].n, a[3].n, a[4].n, 3 * a[3].n * a[4].n, a[3].first, 1 / sqrt((double)a[4].n)};
    return s;
}

/* Axes B, T, H, D of in[0]. */
static enum status check_axes(const struct call *call) {
    const struct axis *a = call->in[0].type->shape.axis;
    TRY(shape_expect_tags(call, 0, "BT3HD"));
    if (axis_is_sharded(&a[1])) return shape_refuse(call, "attention needs the whole sequence");
    if (a[2].n != 3 || axis_is_sharded(&a[4]))
        return shape_refuse(call, "query, key, value and the head must be whole");
    if (call->on == DEVICE_CUDA && a[4].n > ATTENTION_CUDA_MAX_D)
        return shape_refuse(call, "a head on CUDA has at most 128 channels: use more heads, or the cpu");
    return OK;
}

static enum status blocked_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(check_axes(call));
    WITH_CUDA(TRY(attention_cudnn_check(call));)
    enum dtype dtype = call->in[0].type->dtype;
    const struct axis *a = call->in[0].type->shape.axis;
    out[0] = (struct type){dtype, {4, {a[0], a[1], a[3], a[4]}}};
    out[1] = (struct type){dtype_accumulator(dtype), {3, {a[0], a[3], a[1]}}};
    return OK;
}

static enum status materialised_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(check_axes(call));
    enum dtype dtype = call->in[0].type->dtype;
    const struct axis *a = call->in[0].type->shape.axis;
    out[0] = (struct type){dtype, {4, {a[0], a[1], a[3], a[4]}}};
    out[1] = out[2] = out[3] = (struct type){dtype, {4, {a[0], a[3], a[1], a[1]}}};
    out[2].dtype = UINT8;
    return OK;
}

/* ---- whose kernels ---- */

const char *attention_core_text(enum attention_core core, enum dtype dtype, int64_t T, int64_t D, double dropout) {
    (void)core, (void)dtype, (void)T, (void)D, (void)dropout;
    WITH_CUDA(if (core != ATTENTION_CORE_OWN) return attention_cudnn_text(dtype, T, D, dropout);)
    return "own kernels";
}

/* ---- scratch ---- */

int attention_threads(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    int64_t n = call->n_threads, heads = s.B * s.H;
    return (int)(n < heads ? n : heads);
}

static int64_t blocked_reals(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    return attention_pair_cpu(op_dtype(call))->reals(s.T, s.T, s.D, kind == ROW_BACKWARD_INPUT);
}

/* Forward: a row of the mask, a row of p. Backward: a row of dp, a row of the mask; dk and dv of the sequence, a row of
 * dq. */
int64_t attention_materialised_reals(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    return kind == ROW_BACKWARD_INPUT ? 2 * s.T + (2 * s.T + 1) * s.D : 2 * s.T;
}

static int64_t bytes_of_reals(const struct call *call, int64_t reals) {
    return attention_threads(call) * reals * (int64_t)dtype_size(dtype_accumulator(op_dtype(call)));
}
int64_t attention_delta_bytes(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    return kind == ROW_BACKWARD_INPUT ? s.B * s.T * s.H * (int64_t)dtype_size(dtype_accumulator(op_dtype(call))) : 0;
}
/* Room for either core, as which of them runs is only known with a device. */
static int64_t blocked_cuda_work(const struct call *call, enum row_kind kind) {
    int64_t own = attention_delta_bytes(call, kind), cudnn = 0;
    WITH_CUDA(cudnn = attention_cudnn_work(call, kind);)
    return own > cudnn ? own : cudnn;
}
static int64_t blocked_work(const struct call *call, enum row_kind kind) {
    if (call->on == DEVICE_CUDA) return blocked_cuda_work(call, kind);
    return bytes_of_reals(call, blocked_reals(call, kind));
}
static int64_t materialised_work(const struct call *call, enum row_kind kind) {
    if (call->on == DEVICE_CUDA) return attention_delta_bytes(call, kind);
    return bytes_of_reals(call, attention_materialised_reals(call, kind));
}

static struct cost attention_cost(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    double square = (double)(s.B * s.T) * (double)(s.T * s.H * s.D);
    struct cost cost = cost_traffic(call, kind);
    cost.flops = (kind == ROW_BACKWARD_INPUT ? 8 : 4) * square;
    return cost;
}

/* ---- blocked attention on the CPU: one pair, the whole sequence with itself ---- */

const struct attention_pair_kernels *attention_pair_cpu(enum dtype d) {
#define PAIR_KERNELS(t)                                                                                               \
    {attention_pair_forward_cpu_##t, attention_pair_backward_cpu_##t, attention_pair_reals_cpu_##t,                  \
     attention_merge_begin_cpu_##t, attention_merge_cpu_##t, attention_merge_end_cpu_##t, attention_pack_cpu_##t,    \
     attention_unpack_cpu_##t}
    static const struct attention_pair_kernels kernels[N_DTYPES] = {
        [FP64] = PAIR_KERNELS(fp64), [FP32] = PAIR_KERNELS(fp32), [BF16] = PAIR_KERNELS(bf16),
        [FP16] = PAIR_KERNELS(fp16)};
    return &kernels[d];
}

/* Query, key or value in (B,T,3,H,D). */
static struct attention_vectors part_of(const struct call *call, const struct tensor *qkv, int part) {
    struct attention_sizes s = attention_sizes(call);
    char *at = qkv->data;
    return (struct attention_vectors){at ? at + part * s.H * s.D * (int64_t)dtype_size(op_dtype(call)) : NULL,
                                      s.T * s.row, s.row};
}

struct attention_pair attention_pair_of(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    const struct axis *T = &call->in[0].type->shape.axis[1];
    int64_t row = s.H * s.D, sample = s.T * row;
    return (struct attention_pair){
        .B = s.B, .H = s.H, .D = s.D, .Tq = s.T, .Tk = s.T, .scale = s.scale, .causal = true,
        .dropout = dropout_of(call), .queries = *T, .keys = *T, .first_head = s.first_head,
        .q = part_of(call, &call->in[0], 0), .k = part_of(call, &call->in[0], 1), .v = part_of(call, &call->in[0], 2),
        .dq = part_of(call, &call->din[0], 0), .dk = part_of(call, &call->din[0], 1),
        .dv = part_of(call, &call->din[0], 2), .y = {call->out[0].data, sample, row},
        .dy = {call->dout[0].data, sample, row}, .lse = call->out[1].data, .lse_row = s.T,
        .add = call->accumulate & 1, .n_threads = attention_threads(call), .work = call->work};
}

static enum status blocked_forward(const struct call *call) {
    const struct attention_pair pair = attention_pair_of(call);
    attention_pair_cpu(op_dtype(call))->forward(&pair);
    return OK;
}

static enum status blocked_backward_input(const struct call *call) {
    const struct attention_pair pair = attention_pair_of(call);
    attention_pair_cpu(op_dtype(call))->backward(&pair);
    return OK;
}

DECLARE_KERNELS_FB(attention_materialised, cpu);
DECLARE_KERNELS_FB(attention_blocked, cuda);
DECLARE_KERNELS_FB(attention_materialised, cuda);

const struct op op_attention_blocked = {
    .name = "attention_blocked",
    .rule = RULE_ATTENTION,
    .shape = blocked_shape,
    .needs = {.bi_in = IN(0), .bi_out = OUT(0) | OUT(1)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "stat"},
    .statistic_out = OUT(1),
    .has_backward_input = true,
    .work = blocked_work,
    .cost = attention_cost,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({blocked_forward, blocked_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(attention_blocked, cuda))},
};

const struct op op_attention_materialised = {
    .name = "attention_materialised",
    .rule = RULE_ATTENTION,
    .shape = materialised_shape,
    .needs = {.bi_in = IN(0), .bi_out = OUT(1) | OUT(2) | OUT(3)},
    .no_grad_out = OUT(1) | OUT(2) | OUT(3),
    .out_name = {[1] = "probs", "mask", "dropped"},
    .dropout_out = OUT(2) | OUT(3),
    .has_backward_input = true,
    .work = materialised_work,
    .cost = attention_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(attention_materialised, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(attention_materialised, cuda))},
};
