#include "lib/ops/attention/attention_cached.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"
#include <math.h>

struct type attention_cache_type(const struct type *keys) {
    const struct axis *a = keys->shape.axis;
    return (struct type){keys->dtype, {5, {axis_whole('2', 2), a[0], a[3], axis_whole('T', a[1].global), a[4]}}};
}

static enum status attention_cached_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(attention_check(call));
    const struct axis *a = call->in[0].type->shape.axis;
    struct type cache = attention_cache_type(call->in[call->step->n_in - 1].type);
    if (a[1].first < 0 || a[1].first + a[1].n > a[1].global)
        return shape_refuse(call, "the tokens lie beyond the sequence");
    if (!shape_same(&cache.shape, &call->weight[0].type->shape) || cache.dtype != call->weight[0].type->dtype)
        return shape_refuse(call, "the cache must be (2, B, J, T, D) of the input's dtype, with the whole sequence");
    out[0] = attention_out(call);
    return OK;
}

/* Each thread has a row of scores, as long as the sequence may become. */
static int64_t attention_cached_work(const struct call *call, enum row_kind kind) {
    (void)kind;
    return attention_threads(call) * call->in[0].type->shape.axis[1].global *
           (int64_t)dtype_size(dtype_accumulator(op_dtype(call)));
}

/* Two multiply-adds for each channel of every key that is seen, `mean` of them by a query; each cached key and value
 * that a query sees is read once. */
static struct cost attention_cached_cost(const struct call *call, enum row_kind kind) {
    (void)kind;
    struct attention_sizes s = attention_sizes(call);
    double width = (double)(s.B * s.H * s.D), kept = (double)(s.B * s.J * s.D), n = (double)s.T;
    double last = (double)(call->in[0].type->shape.axis[1].first + s.T);
    double mean = attention_keys_of(call, last - 0.5 * (n - 1));
    double seen = fmin(last, attention_keys_of(call, last) + n - 1), size = (double)dtype_size(op_dtype(call));
    struct cost cost = {.flops = 4 * width * n * mean,
                        .bytes = 2 * (kept * (seen + 2 * n) + width * n) * size};
    return cost;
}

/* ---- over a cache of latents ---- */

struct type attention_latent_cache_type(const struct type *c, const struct type *s) {
    const struct axis *a = c->shape.axis;
    return (struct type){c->dtype, {3, {a[0], axis_whole('T', a[1].global),
                                        axis_whole('A', a[2].n + s->shape.axis[2].n)}}};
}

static enum status attention_latent_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(call, 0, "BTHA"));
    TRY(shape_expect_tags(call, 1, "BTL"));
    TRY(shape_expect_tags(call, 2, "BTS"));
    const struct axis *q = call->in[0].type->shape.axis, *c = call->in[1].type->shape.axis;
    const struct axis *s = call->in[2].type->shape.axis;
    struct type cache = attention_latent_cache_type(call->in[1].type, call->in[2].type);
    if (!axis_same(&q[0], &c[0]) || !axis_same(&q[1], &c[1]) || !axis_same(&q[0], &s[0]) || !axis_same(&q[1], &s[1]))
        return shape_refuse(call, "queries, latents and shared keys are of different samples or positions");
    if (axis_is_sharded(&c[2]) || axis_is_sharded(&s[2]) || axis_is_sharded(&q[3]) || q[3].n != c[2].n + s[2].n)
        return shape_refuse(call, "a query must have the channels of a latent and of a shared key, all whole");
    TRY(attention_check_sinks(call, &q[2]));
    if (q[1].first < 0 || q[1].first + q[1].n > q[1].global)
        return shape_refuse(call, "the tokens lie beyond the sequence");
    if (!shape_same(&cache.shape, &call->weight[0].type->shape) || cache.dtype != call->weight[0].type->dtype)
        return shape_refuse(call, "the cache must be (B, T, A) of the input's dtype, with the whole sequence");
    out[0] = *call->in[0].type;
    out[0].shape.axis[3] = c[2];
    return OK;
}

static int64_t attention_latent_work(const struct call *call, enum row_kind kind) {
    (void)kind;
    return attention_latent_threads(call) * call->in[0].type->shape.axis[1].global *
           (int64_t)dtype_size(dtype_accumulator(op_dtype(call)));
}

/* A key that a head sees costs A multiply-adds, and its value L; each row that a token sees is read once. */
static struct cost attention_latent_cost(const struct call *call, enum row_kind kind) {
    const struct axis *q = call->in[0].type->shape.axis;
    double B = (double)q[0].n, n = (double)q[1].n, H = (double)q[2].n, A = (double)q[3].n;
    double both = A + (double)call->in[1].type->shape.axis[2].n, last = (double)q[1].first + n;
    double mean = attention_keys_of(call, last - 0.5 * (n - 1));
    double seen = fmin(last, attention_keys_of(call, last) + n - 1);
    (void)kind;
    return (struct cost){.flops = 2 * both * B * H * n * mean,
                         .bytes = (B * A * (seen + 2 * n) + both * B * H * n) * (double)dtype_size(op_dtype(call))};
}

DECLARE_KERNEL(attention_latent_forward, cpu);
DECLARE_KERNEL(attention_cached_forward, cpu);

const struct op op_attention_cached = {
    .name = "attention_cached",
    .typing = TYPING_LOCAL,
    .mixes = "TD23",
    .shape = attention_cached_shape,
    .work = attention_cached_work,
    .cost = attention_cached_cost,
    .kernels = {[DEVICE_CPU] = {[FP64] = {attention_cached_forward_cpu_fp64, 0, 0},
                                [FP32] = {attention_cached_forward_cpu_fp32, 0, 0},
                                [BF16] = {attention_cached_forward_cpu_bf16, 0, 0},
                                [FP16] = {attention_cached_forward_cpu_fp16, 0, 0}}},
};

const struct op op_attention_latent = {
    .name = "attention_latent",
    .typing = TYPING_LOCAL,
    .mixes = "TA",
    .shape = attention_latent_shape,
    .work = attention_latent_work,
    .cost = attention_latent_cost,
    .kernels = {[DEVICE_CPU] = {[FP64] = {attention_latent_forward_cpu_fp64, 0, 0},
                                [FP32] = {attention_latent_forward_cpu_fp32, 0, 0},
                                [BF16] = {attention_latent_forward_cpu_bf16, 0, 0},
                                [FP16] = {attention_latent_forward_cpu_fp16, 0, 0}}},
};
