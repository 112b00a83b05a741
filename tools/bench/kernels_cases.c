/* The cases of bench-kernels: GPT-2's ops at the sizes of a model, each with enough sets of operands to leave the
 * caches.
 *
 * An op's operands are laid out as in a training run: operands that the op does not declare in `needs` are absent,
 * gradients are in the weights' dtype, weights' gradients are added to. Before a backward row is timed, its forward row
 * runs once on each set, for the statistics that backward reads. */
#include "tools/bench/kernels.h"

#include "lib/base/rng.h"
#include "lib/device/arena.h"
#include "lib/ops/add_position.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/embedding.h"
#include "lib/ops/gelu.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/linear.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers ---- */
static enum status upload_new(const struct device *d, const void *from, int64_t bytes, void **out) {
    TRY(d->allocate(d, bytes, out));
    return d->upload(d, *out, from, bytes);
}

enum status pool_init(struct pool *p, const struct device *d, int64_t bytes) {
    *p = (struct pool){.device = d, .bytes = bytes};
    int64_t n = bytes / 4;
    float *x = malloc((size_t)bytes);
    uint16_t *narrow = malloc((size_t)bytes);
    enum status status =
        x && narrow ? OK : FAIL(E_MEMORY, "no %" PRId64 " bytes of host memory for random numbers", 2 * bytes);
    if (status == OK) {
#pragma omp parallel for
        for (int64_t i = 0; i < n; i++) x[i] = (float)rng_normal(1, 1, (uint64_t)i);
        for (int64_t i = 0; i < 2 * n; i++) dtype_set(narrow, BF16, i, x[i % n]);
        TRY_DONE(upload_new(d, narrow, bytes, &p->normal_bf16));
        TRY_DONE(upload_new(d, x, bytes, &p->normal_fp32));
#pragma omp parallel for
        for (int64_t i = 0; i < n; i++) x[i] = (float)rng_uniform(2, 1, (uint64_t)i);
        TRY_DONE(upload_new(d, x, bytes, &p->uniform_fp32));
    }
done:
    free(x);
    free(narrow);
    return status;
}

void pool_fini(struct pool *p) {
    void *blocks[] = {p->normal_bf16, p->normal_fp32, p->uniform_fp32};
    for (int i = 0; i < 3; i++)
        if (blocks[i]) p->device->release(p->device, blocks[i], p->bytes);
}

/* Turns begin an odd number of 4 KiB pages apart, so that no two operands are the same numbers. */
enum status pool_fill(const struct pool *p, void *to, const void *block, int64_t n, int64_t turn) {
    int64_t at = turn * 37 * ARENA_ALIGN % p->bytes;
    for (int64_t done = 0; done < n; at = 0) {
        int64_t part = p->bytes - at < n - done ? p->bytes - at : n - done;
        TRY(p->device->copy(p->device, (char *)to + done, (const char *)block + at, part));
        done += part;
    }
    return OK;
}

void bench_case_fini(struct bench_case *s) {
    if (s->memory) s->device->release(s->device, s->memory, s->memory_bytes);
    free(s->self);
    s->memory = s->self = NULL;
}

/* ---- an op as a case ---- */
struct timed_op {
    struct step step;
    enum row_kind kind;
    int64_t n_tokens;                /* int32 operands are in [0, n_tokens) */
    double loss_weight;
    struct type in_type[MAX_IN], out_type[MAX_OUT], weight_type[MAX_WEIGHTS];
    struct call call[MAX_SETS], forward[MAX_SETS];
};

static struct type type_make(enum dtype dtype, const char *tags, ...) {
    struct type type = {.dtype = dtype};
    va_list sizes;
    va_start(sizes, tags);
    for (; *tags && type.shape.n_axes < MAX_AXES; tags++)
        type.shape.axis[type.shape.n_axes++] = axis_whole(*tags, va_arg(sizes, int64_t));
    va_end(sizes);
    return type;
}

static struct timed_op *op_start(const struct op *op, enum row_kind kind) {
    struct timed_op *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    o->step = (struct step){.op = op, .n_out = op_n_out(op, false), .parts = 1};
    if (step_dropout(&o->step)) o->step.dropout.stream = 11;
    o->kind = kind;
    o->loss_weight = 1;
    return o;
}
static void op_in(struct timed_op *o, struct type type) { o->in_type[o->step.n_in++] = type; }
static void op_weight(struct timed_op *o, struct type type) { o->weight_type[o->step.n_weight++] = type; }

/* A call with all types and no data. */
static struct call empty_call(const struct timed_op *o, const struct device *d) {
    struct call c = {.step = &o->step, .training = true, .seed = 7, .n_step = 3, .loss_weight = o->loss_weight,
                     .loss_scale = 1, .on = d->kind, .device = d};
    for (int i = 0; i < o->step.n_in; i++) c.in[i].type = c.din[i].type = &o->in_type[i];
    for (int i = 0; i < o->step.n_out; i++) c.out[i].type = c.dout[i].type = &o->out_type[i];
    for (int i = 0; i < o->step.n_weight; i++) c.weight[i].type = c.dweight[i].type = &o->weight_type[i];
    return c;
}

/* Place all operands of a set one after the other; memory NULL: only count. @return their bytes */
static int64_t lay_out(const struct timed_op *o, struct call *c, char *memory) {
    const struct op *op = o->step.op;
    int64_t at = 0;
    struct { struct tensor *t; int n; unsigned mask; } groups[] = {
        {c->in, o->step.n_in, ~0u}, {c->out, o->step.n_out, ~0u}, {c->weight, o->step.n_weight, ~0u},
        {c->dout, o->step.n_out, ~op->no_grad_out}, {c->din, o->step.n_in, ~op->no_grad_in},
        {c->dweight, o->step.n_weight, ~0u}};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (groups[g].mask >> i & 1) {
                if (memory) groups[g].t[i].data = memory + at;
                at += arena_align(type_bytes(groups[g].t[i].type));
            }
    int64_t work = op_work(c, o->kind), forward_work = op_work(c, ROW_FORWARD);
    if (memory) c->work = memory + at;
    return at + arena_align((work > forward_work ? work : forward_work) + 8);
}

static void keep(struct tensor *t, unsigned mask) {
    for (int i = 0; i < MAX_IN; i++)
        if (!(mask >> i & 1)) t[i].data = NULL;
}

/* The operands that a run gives this row. A gradient that is a view has the address of the other one. */
static struct call call_of_row(const struct timed_op *o, const struct call *all) {
    const struct op *op = o->step.op;
    struct call c = *all;
    bool forward = o->kind == ROW_FORWARD, input = o->kind == ROW_BACKWARD_INPUT;
    keep(c.in, forward ? ~0u : input ? op->needs.bi_in : op->needs.bw_in);
    for (int i = 0; i < MAX_OUT; i++)
        if (!((forward ? ~0u : input ? op->needs.bi_out : op->needs.bw_out) >> i & 1)) c.out[i].data = NULL;
    for (int i = 0; i < MAX_WEIGHTS; i++) {
        if (!forward && !(input && op->needs.bi_weight >> i & 1)) c.weight[i].data = NULL;
        if (o->kind != ROW_BACKWARD_WEIGHT) c.dweight[i].data = NULL;
    }
    for (int i = 0; i < MAX_OUT && forward; i++) c.dout[i].data = NULL;
    if (!input) keep(c.din, 0);
    if (input && op->backward_alias == ALIAS_VIEW) c.din[op->alias_in].data = c.dout[0].data;
    return c;
}

static enum status fill_tokens(const struct device *d, const struct tensor *t, int64_t n_tokens) {
    int64_t n = type_n(t->type);
    int32_t *x = malloc((size_t)n * sizeof *x);
    if (!x) return FAIL(E_MEMORY, "no memory for %" PRId64 " tokens", n);
    for (int64_t i = 0; i < n; i++) x[i] = (int32_t)(rng_uniform(3, 1, (uint64_t)i) * (double)n_tokens);
    enum status status = d->upload(d, t->data, x, n * (int64_t)sizeof *x);
    free(x);
    return status;
}

static enum status fill(const struct timed_op *o, const struct pool *p, const struct tensor *t, int n, int64_t turn) {
    for (int i = 0; i < n; i++) {
        if (!t[i].data) continue;
        if (t[i].type->dtype == INT32) TRY(fill_tokens(p->device, &t[i], o->n_tokens));
        else TRY(pool_fill(p, t[i].data, t[i].type->dtype == BF16 ? p->normal_bf16 : p->normal_fp32,
                           (type_bytes(t[i].type) + 7) / 8 * 8, turn + i));
    }
    return OK;
}

/* Results start as NaN, gradients of weights as zero. */
static enum status prepare_set(struct timed_op *o, const struct pool *p, char *memory, int64_t bytes, int set) {
    const struct device *d = p->device;
    struct call *c = &o->forward[set];
    *c = empty_call(o, d);
    TRY(d->fill(d, memory, ~(uint64_t)0, bytes));
    lay_out(o, c, memory);
    TRY(fill(o, p, c->in, o->step.n_in, 16 * set));
    TRY(fill(o, p, c->weight, o->step.n_weight, 16 * set + 4));
    TRY(fill(o, p, c->dout, o->step.n_out, 16 * set + 8));
    for (int i = 0; i < o->step.n_weight; i++) TRY(d->clear(d, c->dweight[i].data, type_bytes(c->dweight[i].type)));
    o->call[set] = call_of_row(o, c);
    return o->kind == ROW_FORWARD ? OK : op_run(c, ROW_FORWARD);
}

static enum status timed_op_run(const struct bench_case *s, int set) {
    const struct timed_op *o = s->self;
    return op_run(&o->call[set], o->kind);
}

/* A view is not written; its bytes do not move. */
static double traffic(const struct timed_op *o) {
    const struct op *op = o->step.op;
    double bytes = op_cost(&o->call[0], o->kind).bytes;
    if (o->kind == ROW_BACKWARD_INPUT && op->backward_alias == ALIAS_VIEW)
        bytes -= (double)type_bytes(&o->in_type[op->alias_in]);
    return bytes;
}

static void note_results(struct bench_case *s, const struct timed_op *o) {
    const struct call *c = &o->call[0];
    if (o->kind == ROW_FORWARD) s->result[s->n_results++] = c->out[0];
    if (o->kind == ROW_BACKWARD_INPUT) s->result[s->n_results++] = c->din[0];
    for (int i = 0; i < o->step.n_weight && o->kind == ROW_BACKWARD_WEIGHT; i++)
        s->result[s->n_results++] = c->dweight[i];
}

/* Allocate and fill the sets; takes `o` over. There are enough sets to move rotate_bytes, and one at least. */
static enum status op_finish(struct bench_case *s, struct timed_op *o, const struct pool *p,
                             const struct scale *scale) {
    const struct device *d = p->device;
    s->self = o;
    s->run = timed_op_run;
    struct call c = empty_call(o, d);
    TRY(o->step.op->shape(&c, o->out_type));
    int64_t bytes = lay_out(o, &c, NULL), n = scale->rotate_bytes / bytes + 1;
    s->n_sets = (int)(n > MAX_SETS ? MAX_SETS : n);
    s->memory_bytes = bytes * s->n_sets;
    TRY(d->allocate(d, s->memory_bytes, &s->memory));
    for (int i = 0; i < s->n_sets; i++) TRY(prepare_set(o, p, (char *)s->memory + i * bytes, bytes, i));
    s->bytes = traffic(o);
    s->flops = op_cost(&o->call[0], o->kind).flops;
    note_results(s, o);
    shape_print(&o->in_type[0].shape, s->shape, sizeof s->shape);
    return d->finish(d);
}

#define NEW(o, op, kind)                                                                                               \
    struct timed_op *o = op_start(op, kind);                                                                         \
    if (!o) return FAIL(E_MEMORY, "no memory for a case")

static const char *const kind_name[] = {[ROW_FORWARD] = "forward", [ROW_BACKWARD_INPUT] = "backward, input",
                                        [ROW_BACKWARD_WEIGHT] = "backward, weight"};

/* ---- the ops ---- */
#define MAKER(function) \
    static enum status function(struct bench_case *s, const struct pool *p, const struct sizes *z, \
                                const struct scale *scale)
#define OF_KIND(function, make, kind)                                                                                  \
    MAKER(function) { return make(s, p, z, scale, kind); }

static enum status layernorm(struct bench_case *s, const struct pool *p, const struct sizes *z,
                             const struct scale *scale, enum row_kind kind) {
    NEW(o, &op_layernorm, kind);
    op_in(o, type_make(BF16, "BTC", z->B, z->T, z->C));
    op_weight(o, type_make(BF16, "C", z->C));
    op_weight(o, type_make(BF16, "C", z->C));
    snprintf(s->name, sizeof s->name, "layernorm %s", kind_name[kind]);
    s->memory_bound = true;
    return op_finish(s, o, p, scale);
}
OF_KIND(layernorm_forward, layernorm, ROW_FORWARD)
OF_KIND(layernorm_backward_input, layernorm, ROW_BACKWARD_INPUT)
OF_KIND(layernorm_backward_weight, layernorm, ROW_BACKWARD_WEIGHT)

static enum status gelu(struct bench_case *s, const struct pool *p, const struct sizes *z, const struct scale *scale,
                        enum row_kind kind) {
    NEW(o, &op_gelu, kind);
    op_in(o, type_make(BF16, "BTK", z->B, z->T, 4 * z->C));
    snprintf(s->name, sizeof s->name, "gelu %s", kind_name[kind]);
    s->memory_bound = true;
    return op_finish(s, o, p, scale);
}
OF_KIND(gelu_forward, gelu, ROW_FORWARD)
OF_KIND(gelu_backward, gelu, ROW_BACKWARD_INPUT)

static enum status residual(struct bench_case *s, const struct pool *p, const struct sizes *z,
                            const struct scale *scale, enum row_kind kind, double dropout) {
    NEW(o, &op_bias_dropout_residual, kind);
    o->step.dropout.p = dropout;
    op_in(o, type_make(BF16, "BTC", z->B, z->T, z->C));
    op_in(o, type_make(BF16, "BTC", z->B, z->T, z->C));
    op_weight(o, type_make(BF16, "C", z->C));
    snprintf(s->name, sizeof s->name, "residual %s%s", kind_name[kind], dropout > 0 ? ", dropout" : "");
    return op_finish(s, o, p, scale);
}
MAKER(residual_forward) { return residual(s, p, z, scale, ROW_FORWARD, 0); }
MAKER(residual_forward_dropout) { return residual(s, p, z, scale, ROW_FORWARD, 0.1); }
MAKER(residual_backward_dropout) { return residual(s, p, z, scale, ROW_BACKWARD_INPUT, 0.1); }
MAKER(residual_backward_weight) { return residual(s, p, z, scale, ROW_BACKWARD_WEIGHT, 0); }

static enum status loss(struct bench_case *s, const struct pool *p, const struct sizes *z, const struct scale *scale,
                        enum row_kind kind) {
    NEW(o, &op_cross_entropy, kind);
    int64_t B = z->B > 8 ? 8 : z->B;     /* the logits of 8192 tokens take 0.8 GB */
    o->n_tokens = z->V;
    o->loss_weight = 1.0 / (double)(B * z->T);
    op_in(o, type_make(BF16, "BTV", B, z->T, z->V));
    op_in(o, type_make(INT32, "BT", B, z->T));
    snprintf(s->name, sizeof s->name, "cross_entropy %s", kind_name[kind]);
    s->memory_bound = true;
    return op_finish(s, o, p, scale);
}
OF_KIND(loss_backward, loss, ROW_BACKWARD_INPUT)

/* Uniform tokens: the worst case for forward's reads, and few equal ones for backward to add up. */
static enum status embedding(struct bench_case *s, const struct pool *p, const struct sizes *z,
                             const struct scale *scale, enum row_kind kind) {
    NEW(o, &op_embedding, kind);
    o->n_tokens = z->V;
    op_in(o, type_make(INT32, "BT", z->B, z->T));
    op_weight(o, type_make(BF16, "VC", z->V, z->C));
    snprintf(s->name, sizeof s->name, "embedding %s", kind_name[kind]);
    return op_finish(s, o, p, scale);
}
OF_KIND(embedding_forward, embedding, ROW_FORWARD)
OF_KIND(embedding_backward, embedding, ROW_BACKWARD_WEIGHT)

static enum status position(struct bench_case *s, const struct pool *p, const struct sizes *z,
                            const struct scale *scale, enum row_kind kind) {
    NEW(o, &op_add_position, kind);
    op_in(o, type_make(BF16, "BTC", z->B, z->T, z->C));
    op_weight(o, type_make(BF16, "TC", z->T, z->C));
    snprintf(s->name, sizeof s->name, "add_position %s", kind_name[kind]);
    return op_finish(s, o, p, scale);
}
OF_KIND(position_forward, position, ROW_FORWARD)
OF_KIND(position_backward, position, ROW_BACKWARD_WEIGHT)

/* Flops that a causal kernel needs: half of the square that the MFU formula counts, forward 2 products, backward 5. */
static void count_causal_flops(struct bench_case *s, const struct sizes *z, enum row_kind kind) {
    s->flops = (kind == ROW_FORWARD ? 2.0 : 5.0) * (double)(z->B * z->T) * (double)(z->T * z->C);
}
static enum status attention(struct bench_case *s, const struct pool *p, const struct sizes *z,
                             const struct scale *scale, enum row_kind kind) {
    NEW(o, &op_attention_blocked, kind);
    op_in(o, type_make(BF16, "BT3HD", z->B, z->T, (int64_t)3, z->H, z->C / z->H));
    snprintf(s->name, sizeof s->name, "attention %s", kind_name[kind]);
    TRY(op_finish(s, o, p, scale));
    count_causal_flops(s, z, kind);
    return OK;
}
OF_KIND(attention_forward, attention, ROW_FORWARD)
OF_KIND(attention_backward, attention, ROW_BACKWARD_INPUT)

/* y (R,K) = x (R,N) W (K,N)^T + b */
static enum status linear(struct bench_case *s, const struct pool *p, int64_t R, int64_t K, int64_t N, bool bias,
                          const struct scale *scale, const char *what, enum row_kind kind) {
    NEW(o, &op_linear, kind);
    op_in(o, type_make(BF16, "TC", R, N));
    op_weight(o, type_make(BF16, "KC", K, N));
    if (bias) op_weight(o, type_make(BF16, "K", K));
    TRY(op_finish(s, o, p, scale));
    snprintf(s->name, sizeof s->name, "%s %s", what, kind_name[kind]);
    snprintf(s->shape, sizeof s->shape, "%" PRId64 " x %" PRId64 " x %" PRId64, R, K, N);
    return OK;
}
#define LINEAR(layer, R, K, N, bias)                                                                                   \
    MAKER(layer##_forward) { return linear(s, p, R, K, N, bias, scale, "linear " #layer, ROW_FORWARD); }               \
    MAKER(layer##_backward_input) { return linear(s, p, R, K, N, bias, scale, "linear " #layer, ROW_BACKWARD_INPUT); } \
    MAKER(layer##_backward_weight) { return linear(s, p, R, K, N, bias, scale, "linear " #layer, ROW_BACKWARD_WEIGHT); }
LINEAR(qkv, z->B * z->T, 3 * z->C, z->C, true)
LINEAR(proj, z->B * z->T, z->C, z->C, false)
LINEAR(fc, z->B * z->T, 4 * z->C, z->C, true)
LINEAR(fc2, z->B * z->T, z->C, 4 * z->C, false)
LINEAR(head, (z->B > 8 ? 8 : z->B) * z->T, z->V, z->C, false)
/* GPT-2's own vocabulary, 50257, is odd: rows of logits then start at no useful alignment. */
LINEAR(head_odd, (z->B > 8 ? 8 : z->B) * z->T, z->V - 47, z->C, false)

enum status large_product(struct bench_case *s, const struct pool *p, const struct sizes *z,
                          const struct scale *scale) {
    (void)z;
    int64_t n = scale->small ? 64 : 8192;
    return linear(s, p, n, n, n, false, scale, "product", ROW_FORWARD);
}

case_maker *const case_makers[] = {
    layernorm_forward, layernorm_backward_input, layernorm_backward_weight, gelu_forward, gelu_backward,
    adamw_case, norm_case, loss_backward, residual_forward, residual_forward_dropout, residual_backward_dropout,
    residual_backward_weight, embedding_forward, embedding_backward, position_forward, position_backward,
    attention_forward, attention_backward, qkv_forward, qkv_backward_input, qkv_backward_weight, proj_forward,
    proj_backward_input, proj_backward_weight, fc_forward, fc_backward_input, fc_backward_weight, fc2_forward,
    fc2_backward_input, fc2_backward_weight, head_forward, head_backward_input, head_backward_weight,
    head_odd_forward, head_odd_backward_input, head_odd_backward_weight, NULL,
};
