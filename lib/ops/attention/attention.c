#include "lib/ops/attention/attention.h"
#include "lib/base/integer.h"
#include "lib/ops/attention/attention_bias.h"
#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"
#include <math.h>

struct attention_sizes attention_sizes(const struct call *call) {
    const struct shape *q = &call->in[0].type->shape;
    const struct axis *a = q->axis, *h = &a[q->n_axes - 2];
    struct attention_sizes s = {.B = a[0].n, .T = a[1].n, .Tk = a[1].n, .H = h->n, .D = h[1].n, .J = h->n,
                                .first_head = h->first,
                                .scale = call->step->attention.unscaled ? 1 : 1 / sqrt((double)h[1].n)};
    if (call->step->attention.factor > 0) s.scale *= call->step->attention.factor;
    s.row = s.key_row = 3 * s.H * s.D;
    if (call->step->n_in == 1) return s;
    s.Tk = call->in[1].type->shape.axis[1].n;
    s.J = call->in[1].type->shape.axis[3].n;
    s.row = s.H * s.D;
    s.key_row = 2 * s.J * s.D;
    return s;
}

/* Queries (B,T,H,D); keys and values (B,T,2,J,D), of the same positions or, with `cross`, of another sequence. The rank
 * has the key head of each of its query heads. */
static bool same_places(const struct call *call, const struct axis *q, const struct axis *kv) {
    if (!call->step->attention.cross) return axis_same(q, kv);
    return !axis_is_sharded(kv) && call->step->attention.mask == MASK_FULL;
}

static enum status check_shared(const struct call *call) {
    TRY(shape_expect_tags(call, 0, "BTHD"));
    TRY(shape_expect_tags(call, 1, "BT2JD"));
    const struct axis *q = call->in[0].type->shape.axis, *kv = call->in[1].type->shape.axis;
    if (!axis_same(&q[0], &kv[0]) || !same_places(call, &q[1], &kv[1]) || !axis_same(&q[3], &kv[4]) || kv[2].n != 2 ||
        call->in[0].type->dtype != call->in[1].type->dtype)
        return shape_refuse(call, "queries and keys differ in samples, positions, the head's size or type");
    if (q[2].n % kv[3].n || q[2].first * kv[3].n != kv[3].first * q[2].n)
        return shape_refuse(call, "the heads' keys are not here: as many heads must share each key head");
    return OK;
}

/* Which weight the sinks are: over a cache the first one is the cache. */
static int sinks_at(const struct call *call) { return call->step->op->weights_with_input ? 0 : 1; }

enum status attention_check_sinks(const struct call *call, const struct axis *heads) {
    int at = sinks_at(call);
    const struct type *w = call->weight[at].type;
    if (!call->step->attention.view.sinks) return OK;
    if (call->step->n_weight != at + 1 || w->shape.n_axes != 1 || !axis_same(&w->shape.axis[0], heads))
        return shape_refuse(call, "sinks have one number for each of the queries' heads");
    return w->dtype == call->in[0].type->dtype ? OK : shape_refuse(call, "input and sinks have different dtypes");
}

enum status attention_check(const struct call *call) {
    if (call->step->n_in > 1) TRY(check_shared(call));
    else TRY(shape_expect_tags(call, 0, "BT3HD"));
    const struct shape *q = &call->in[0].type->shape;
    const struct axis *d = &q->axis[q->n_axes - 1];
    if (call->step->attention.view.window && !attention_is_causal(call))
        return shape_refuse(call, "a window is of causal attention");
    if (call->step->attention.view.cap > 0 && attention_has_bias(call))
        return shape_refuse(call, "a cap is of scores without a bias");
    TRY(attention_check_sinks(call, d - 1));
    if (axis_is_sharded(d) || (q->n_axes == 5 && q->axis[2].n != 3))
        return shape_refuse(call, "query, key, value and the head must be whole");
    if (call->on == DEVICE_CUDA && d->n > ATTENTION_CUDA_MAX_D)
        return shape_refuse(call, "a head on CUDA has at most 256 channels: use more heads, or the cpu");
    return OK;
}

struct type attention_out(const struct call *call) {
    const struct type *q = call->in[0].type;
    const struct axis *a = q->shape.axis, *h = &a[q->shape.n_axes - 2];
    return (struct type){q->dtype, {4, {a[0], a[1], h[0], h[1]}}};
}

/* Axes of lse: (B,H,T). */
static struct shape shape_by_head(const struct call *call) {
    struct shape y = attention_out(call).shape;
    return (struct shape){3, {y.axis[0], y.axis[2], y.axis[1]}};
}

struct type attention_lse(const struct call *call) {
    return (struct type){dtype_accumulator(call->in[0].type->dtype), shape_by_head(call)};
}

static enum status check_whole(const struct call *call) {
    TRY(attention_check(call));
    if (call->on == DEVICE_CUDA && (attention_has_bias(call) || call->step->attention.cross))
        return shape_refuse(call, "relative bias, and keys of another sequence, have no kernel for GPUs yet: use the "
                                  "cpu");
    TRY(attention_bias_check(call));
    if (axis_is_sharded(&call->in[0].type->shape.axis[1]))
        return shape_refuse(call, "attention needs the whole sequence");
    return OK;
}

static enum status blocked_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(check_whole(call));
    WITH_CUDA(TRY(attention_cudnn_check(call));)
    out[0] = attention_out(call);
    out[1] = attention_lse(call);
    return OK;
}

static enum status materialised_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(check_whole(call));
    if (call->step->attention.view.sinks)
        return shape_refuse(call, "materialised attention keeps probabilities and has no sinks: use attention blocked");
    if (call->on == DEVICE_CUDA && call->step->attention.view.cap > 0)
        return shape_refuse(call, "materialised attention on CUDA has no cap of scores: use attention blocked");
    out[0] = attention_out(call);
    out[1] = (struct type){out[0].dtype, shape_by_head(call)};
    out[1].shape.axis[out[1].shape.n_axes++] = call->in[call->step->n_in - 1].type->shape.axis[1];
    out[2] = out[3] = out[1];
    out[2].dtype = UINT8;
    return OK;
}

/* ---- scratch ---- */

int attention_threads(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    int64_t n = call->n_threads, heads = s.B * s.J;
    return (int)(n < heads ? n : heads);
}

static int64_t blocked_reals(const struct call *call, enum row_kind kind) {
    const struct attention_pair pair = attention_pair_of(call);
    return attention_pair_reals(DEVICE_CPU, op_dtype(call), &pair, kind == ROW_BACKWARD_INPUT);
}

/* Forward: a row of the mask and a row of p. Backward: a row of dp, of the mask and of dq; dk and dv of the whole
 * sequence. */
int64_t attention_materialised_reals(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    return kind == ROW_BACKWARD_INPUT ? 2 * s.Tk + (2 * s.Tk + 1) * s.D : 2 * s.Tk;
}

static int64_t bytes_of_reals(const struct call *call, int64_t reals) {
    return attention_threads(call) * reals * (int64_t)dtype_size(dtype_accumulator(op_dtype(call)));
}
int64_t attention_delta_bytes(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    return kind == ROW_BACKWARD_INPUT ? s.B * s.T * s.H * (int64_t)dtype_size(dtype_accumulator(op_dtype(call))) : 0;
}
/* Room for either core, because only a device decides which of the two runs. */
static int64_t blocked_cuda_work(const struct call *call, enum row_kind kind) {
    int64_t own = attention_delta_bytes(call, kind), cudnn = 0;
    WITH_CUDA(const struct attention_pair pair = attention_pair_of(call);
              cudnn = attention_cudnn_work(&pair, kind == ROW_BACKWARD_INPUT);)
    return own > cudnn ? own : cudnn;
}
static int64_t blocked_work(const struct call *call, enum row_kind kind) {
    if (call->on == DEVICE_CUDA) return blocked_cuda_work(call, kind);
    return attention_bias_bytes(call, kind) + bytes_of_reals(call, blocked_reals(call, kind));
}
static int64_t materialised_work(const struct call *call, enum row_kind kind) {
    if (call->on == DEVICE_CUDA) return attention_delta_bytes(call, kind);
    return attention_bias_bytes(call, kind) + bytes_of_reals(call, attention_materialised_reals(call, kind));
}

void attention_cost(struct cost *cost, const struct call *call, enum row_kind kind, double queries, double keys) {
    bool backward = kind == ROW_BACKWARD_INPUT;
    double most = attention_keys_of(call, keys), pairs = queries * most;
    double seen = attention_is_causal(call) ? 1 - 0.5 * most / keys : 1;   /* the first queries have fewer keys */
    cost->flops = (backward ? 8 : 4) * pairs;
    cost->left_out = cost->flops - seen * (backward ? 10 : 4) * pairs;
}

static struct cost blocked_cost(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    struct cost cost = cost_traffic(call, kind);
    attention_cost(&cost, call, kind, (double)(s.B * s.T * s.H * s.D), (double)s.Tk);
    return cost;
}

/* Traffic on top of the saved tensors: forward writes and reads the scores between its products; backward writes and
 * reads dp and ds, in part twice. */
static struct cost materialised_cost(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    bool backward = kind == ROW_BACKWARD_INPUT;
    int64_t keys = (int64_t)attention_keys_of(call, (double)s.Tk);
    struct cost cost = cost_traffic(call, kind);
    cost_product(&cost, s.T, keys, s.D, (backward ? 2 : 1) * s.B * s.H);
    cost_product(&cost, s.T, s.D, keys, (backward ? 2 : 1) * s.B * s.H);
    cost.bytes += (backward ? 3 : 2) * (double)(s.B * s.H) * (double)(s.T * s.Tk) * (double)dtype_size(op_dtype(call));
    return cost;
}

/* ---- blocked attention: the whole sequence is one pair ---- */

DECLARE_ATTENTION_PAIR_KERNELS(cpu);
DECLARE_ATTENTION_PAIR_KERNELS(cuda);

const struct attention_pair_kernels *attention_pair_kernels(enum device_kind device, enum dtype d) {
#define EVERY(device)                                                                                                  \
    {[FP64] = ATTENTION_PAIR_KERNELS_OF(device##_fp64), [FP32] = ATTENTION_PAIR_KERNELS_OF(device##_fp32),             \
     [BF16] = ATTENTION_PAIR_KERNELS_OF(device##_bf16), [FP16] = ATTENTION_PAIR_KERNELS_OF(device##_fp16)}
    static const struct attention_pair_kernels kernels[N_DEVICES][N_DTYPES] = {
        [DEVICE_CPU] = EVERY(cpu), WITH_CUDA([DEVICE_CUDA] = EVERY(cuda))};
    const struct attention_pair_kernels *k = &kernels[device][d];
    return k->forward ? k : NULL;
}

/* On a GPU: delta of our own kernels or cuDNN's workspace, whichever is larger. */
extern attention_pair_counter attention_pair_reals_cpu_fp64, attention_pair_reals_cpu_fp32,
    attention_pair_reals_cpu_bf16, attention_pair_reals_cpu_fp16;
int64_t attention_pair_reals(enum device_kind device, enum dtype d, const struct attention_pair *p, bool backward) {
    static attention_pair_counter *const of_cpu[N_DTYPES] = {
        [FP64] = attention_pair_reals_cpu_fp64, [FP32] = attention_pair_reals_cpu_fp32,
        [BF16] = attention_pair_reals_cpu_bf16, [FP16] = attention_pair_reals_cpu_fp16};
    int64_t own = backward ? p->B * p->H * p->Tq : 0, cudnn = 0;
    if (device == DEVICE_CPU) return of_cpu[d](p, backward);
    WITH_CUDA(cudnn = ceil_div(attention_cudnn_work(p, backward), (int64_t)dtype_size(dtype_accumulator(d)));)
    return max64(own, cudnn);
}

/* Query, key or value (part 0, 1, 2): in one tensor (B,T,3,H,D), or in two tensors, q and kv. */
static struct attention_vectors part_of(const struct call *call, const struct tensor *in, int part) {
    struct attention_sizes s = attention_sizes(call);
    bool is_key = part > 0, apart = call->step->n_in > 1;
    char *at = in[apart && is_key].data;
    int64_t before = apart && is_key ? part - 1 : part, row = is_key ? s.key_row : s.row;
    if (at) at += before * s.J * s.D * (int64_t)dtype_size(op_dtype(call));
    return (struct attention_vectors){at, (is_key ? s.Tk : s.T) * row, row, is_key ? s.H / s.J : 1};
}

/* The scratch begins with the arrays of the bias, if the step has a bias. */
static struct attention_table table_of(const struct call *call) {
    if (!attention_has_bias(call)) return (struct attention_table){.rows = NULL};
    struct attention_sizes s = attention_sizes(call);
    int64_t n = s.H * (s.T + s.Tk - 1) * (int64_t)dtype_size(dtype_accumulator(op_dtype(call)));
    return (struct attention_table){.rows = call->weight[0].data, .gradient = call->dweight[0],
                                    .both_sides = !attention_is_causal(call), .by_distance = call->work,
                                    .found = call->dout[0].data ? (char *)call->work + n : NULL};
}

static struct attention_sinks sinks_of(const struct call *call) {
    if (!call->step->attention.view.sinks) return (struct attention_sinks){.logits = NULL};
    return (struct attention_sinks){call->weight[sinks_at(call)].data, call->dweight[sinks_at(call)]};
}

struct attention_pair attention_pair_of(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    const struct axis *T = &call->in[0].type->shape.axis[1], *Tk = &call->in[call->step->n_in - 1].type->shape.axis[1];
    int64_t row = s.H * s.D, sample = s.T * row;
    enum row_kind kind = call->dout[0].data ? ROW_BACKWARD_INPUT : ROW_FORWARD;
    return (struct attention_pair){
        .B = s.B, .H = s.H, .D = s.D, .shared_by = s.H / s.J, .Tq = s.T, .Tk = s.Tk, .scale = s.scale,
        .causal = attention_is_causal(call), .view = call->step->attention.view, .dtype = op_dtype(call),
        .core = call->step->attention.core,
        .dropout = dropout_of(call), .queries = *T, .keys = *Tk, .first_head = s.first_head,
        .q = part_of(call, call->in, 0), .k = part_of(call, call->in, 1), .v = part_of(call, call->in, 2),
        .dq = part_of(call, call->din, 0), .dk = part_of(call, call->din, 1), .dv = part_of(call, call->din, 2),
        .y = {call->out[0].data, sample, row, 1}, .dy = {call->dout[0].data, sample, row, 1},
        .lse = call->out[1].data, .lse_row = s.T, .add_queries = call->accumulate & 1,
        .add_keys = call->accumulate >> (call->step->n_in - 1) & 1, .n_threads = attention_threads(call),
        .device = call->device, .table = table_of(call), .sinks = sinks_of(call),
        .work = call->work ? (char *)call->work + attention_bias_bytes(call, kind) : NULL};
}

static enum status blocked_forward(const struct call *call) {
    const struct attention_pair pair = attention_pair_of(call);
    return attention_pair_kernels(DEVICE_CPU, op_dtype(call))->forward(&pair);
}

static enum status blocked_backward_input(const struct call *call) {
    const struct attention_pair pair = attention_pair_of(call);
    return attention_pair_kernels(DEVICE_CPU, op_dtype(call))->backward(&pair);
}

DECLARE_KERNELS_FB(attention_materialised, cpu);
DECLARE_KERNELS_FB(attention_blocked, cuda);
DECLARE_KERNELS_FB(attention_materialised, cuda);

static int blocked_pairs(const struct call *call, bool backward, struct attention_pair *out) {
    (void)backward;
    *out = attention_pair_of(call);
    return 1;
}

const struct op op_attention_blocked = {
    .name = "attention_blocked",
    .typing = TYPING_LOCAL,
    .mixes = "TD23",
    .rule = RULE_ATTENTION,
    .shape = blocked_shape,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(0) | OUT(1), .bi_weight = WEIGHT(0)},
    .no_grad_out = OUT(1),
    .out_name = {[1] = "stat"},
    .statistic_out = OUT(1),
    .has_backward_input = true,
    .weights_with_input = true,
    .work = blocked_work,
    .cost = blocked_cost,
    .pairs = blocked_pairs,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({blocked_forward, blocked_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(attention_blocked, cuda))},
};

const struct op op_attention_materialised = {
    .name = "attention_materialised",
    .typing = TYPING_LOCAL,
    .mixes = "TD23",
    .rule = RULE_ATTENTION,
    .shape = materialised_shape,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(1) | OUT(2) | OUT(3), .bi_weight = WEIGHT(0)},
    .no_grad_out = OUT(1) | OUT(2) | OUT(3),
    .out_name = {[1] = "probs", "mask", "dropped"},
    .dropout_out = OUT(2) | OUT(3),
    .has_backward_input = true,
    .weights_with_input = true,
    .work = materialised_work,
    .cost = materialised_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(attention_materialised, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(attention_materialised, cuda))},
};
