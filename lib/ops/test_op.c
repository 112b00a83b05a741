/* ranks: 1  device: any */
#include "lib/ops/test_op.h"
#include "lib/device/arena.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/embedding.h"
#include "lib/ops/gelu.h"
#include "lib/ops/layernorm.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- types ---- */

struct type op_type(enum dtype dtype, const char *tags, ...) {
    struct type type = {dtype, {0}};
    va_list sizes;
    va_start(sizes, tags);
    for (; *tags && type.shape.n_axes < MAX_AXES; tags++)
        type.shape.axis[type.shape.n_axes++] = axis_whole(*tags, va_arg(sizes, int));
    va_end(sizes);
    return type;
}

struct type op_type_part(struct type type, char tag, int64_t first, int64_t n) {
    for (int i = 0; i < type.shape.n_axes; i++)
        if (type.shape.axis[i].tag == tag) type.shape.axis[i].first = first, type.shape.axis[i].n = n;
    return type;
}

/* ---- tensors ---- */

struct tensor tensor_new(const struct type *type) {
    int64_t bytes = type_bytes(type);
    struct tensor t = {malloc((size_t)bytes), type};
    memset(t.data, 0xff, (size_t)bytes);   /* NaN in every floating dtype, so that a read of unwritten memory shows */
    return t;
}

/* Padding gets a large value, so that an op that reads it gives a wrong result. */
static void tensor_fill(const struct tensor *t, const char *name, int32_t n_tokens) {
    uint64_t stream = rng_stream(name);
    for (int64_t i = 0; i < type_n(t->type); i++) {
        int64_t at = shape_global_index(&t->type->shape, i);
        if (t->type->dtype == INT32)
            ((int32_t *)t->data)[i] = (int32_t)(rng_uniform(1, stream, (uint64_t)at) * n_tokens);
        else
            dtype_set(t->data, t->type->dtype, i, at < 0 ? 100 : rng_normal(1, stream, (uint64_t)at));
    }
}

/* ---- cases ---- */

void op_case_start(struct op_case *c, const struct op *op, int n_out) {
    memset(c, 0, sizeof *c);
    c->step.op = op;
    c->step.n_out = n_out;
    if (step_dropout(&c->step)) c->step.dropout.stream = rng_stream("test site");
    c->settings.training = true;
    c->settings.seed = 7;
    c->settings.n_step = 3;
    c->settings.first_sample = 0;
    c->settings.loss_weight = c->settings.loss_scale = 1;
}
void op_case_input(struct op_case *c, struct type type) { c->in_type[c->step.n_in++] = type; }
void op_case_weight(struct op_case *c, struct type type) {
    c->dweight_type[c->step.n_weight] = type;
    c->weight_type[c->step.n_weight++] = type;
}

/* A call with all types and no data. */
static struct call empty_call(const struct op_case *c) {
    struct call call = c->settings;
    call.step = &c->step;
    call.n_threads = omp_get_max_threads();
    for (int i = 0; i < c->step.n_in; i++) call.in[i].type = call.din[i].type = &c->in_type[i];
    for (int i = 0; i < c->step.n_out; i++) call.out[i].type = call.dout[i].type = &c->out_type[i];
    for (int i = 0; i < c->step.n_weight; i++) {
        call.weight[i].type = &c->weight_type[i];
        call.dweight[i].type = &c->dweight_type[i];
    }
    return call;
}

/* "in 0": the name of an operand's random stream. Static storage. */
static const char *numbered(const char *what, int i) {
    static char text[24];
    snprintf(text, sizeof text, "%s %d", what, i);
    return text;
}

void op_case_finish(struct op_case *c) {
    struct call call = empty_call(c);
    assert_ok(c->step.op->shape(&call, c->out_type));
    for (int i = 0; i < c->step.n_in; i++) {
        c->in[i] = tensor_new(&c->in_type[i]), c->din[i] = tensor_new(&c->in_type[i]);
        tensor_fill(&c->in[i], numbered("in", i), c->n_tokens);
    }
    for (int i = 0; i < c->step.n_out; i++) {
        c->out[i] = tensor_new(&c->out_type[i]), c->dout[i] = tensor_new(&c->out_type[i]);
        if (!(c->step.op->no_grad_out >> i & 1)) tensor_fill(&c->dout[i], numbered("dout", i), 0);
    }
    for (int i = 0; i < c->step.n_weight; i++) {
        c->weight[i] = tensor_new(&c->weight_type[i]), c->dweight[i] = tensor_new(&c->dweight_type[i]);
        tensor_fill(&c->weight[i], numbered("weight", i), 0);
        memset(c->dweight[i].data, 0, (size_t)type_bytes(&c->dweight_type[i]));
    }
}

void op_case_free(struct op_case *c) {
    for (int i = 0; i < c->step.n_in; i++) free(c->in[i].data), free(c->din[i].data);
    for (int i = 0; i < c->step.n_out; i++) free(c->out[i].data), free(c->dout[i].data);
    for (int i = 0; i < c->step.n_weight; i++) free(c->weight[i].data), free(c->dweight[i].data);
}

static void give(struct tensor *to, const struct tensor *from, int n, unsigned mask) {
    for (int i = 0; i < n; i++)
        if (mask >> i & 1) to[i].data = from[i].data;
}

struct call op_case_call(const struct op_case *c, enum row_kind kind) {
    const struct op *op = c->step.op;
    struct call call = empty_call(c);
    bool forward = kind == ROW_FORWARD || kind == ROW_REPLAY, input = kind == ROW_BACKWARD_INPUT;
    give(call.in, c->in, c->step.n_in, forward ? ~0u : input ? op->needs.bi_in : op->needs.bw_in);
    give(call.out, c->out, c->step.n_out, forward ? ~0u : input ? op->needs.bi_out : op->needs.bw_out);
    give(call.weight, c->weight, c->step.n_weight, forward ? ~0u : input ? op->needs.bi_weight : 0);
    if (!forward) give(call.dout, c->dout, c->step.n_out, ~op->no_grad_out);
    if (input) give(call.din, c->din, c->step.n_in, ~op->no_grad_in);
    if (kind == ROW_BACKWARD_WEIGHT || (input && op_input_adds_weights(op)))
        give(call.dweight, c->dweight, c->step.n_weight, ~0u);
    return call;
}

/* ---- on the device ---- */

/* The operands of a call on the device: one copy for each address. */
struct mirror { int n; struct { void *host, *there; int64_t bytes; } of[2 * (MAX_IN + MAX_OUT + MAX_WEIGHTS) + 1]; };

static void *mirror_of(struct mirror *m, const struct device *d, void *host, int64_t bytes) {
    if (!host) return NULL;
    for (int i = 0; i < m->n; i++)
        if (m->of[i].host == host) return m->of[i].there;
    void *there;
    assert_ok(d->allocate(d, bytes, &there));
    assert_ok(d->upload(d, there, host, bytes));
    m->of[m->n].host = host;
    m->of[m->n].bytes = bytes;
    return m->of[m->n++].there = there;
}

static void mirror_tensors(struct mirror *m, const struct device *d, struct tensor *t, int n) {
    for (int i = 0; i < n; i++)
        if (t[i].data) t[i].data = mirror_of(m, d, t[i].data, type_bytes(t[i].type));
}

static void mirror_back(struct mirror *m, const struct device *d) {
    for (int i = 0; i < m->n; i++) {
        assert_ok(d->download(d, m->of[i].host, m->of[i].there, m->of[i].bytes));
        d->release(d, m->of[i].there, m->of[i].bytes);
    }
}

static enum status run_call_on(struct call *call, enum row_kind kind, const struct device *d) {
    call->device = d;
    call->on = d->kind;
    if (d->kind == DEVICE_CPU) return op_run(call, kind);
    struct mirror m = {0};
    struct call there = *call;
    mirror_tensors(&m, d, there.in, MAX_IN);
    mirror_tensors(&m, d, there.out, MAX_OUT);
    mirror_tensors(&m, d, there.weight, MAX_WEIGHTS);
    mirror_tensors(&m, d, there.din, MAX_IN);
    mirror_tensors(&m, d, there.dout, MAX_OUT);
    mirror_tensors(&m, d, there.dweight, MAX_WEIGHTS);
    if (there.work) there.work = mirror_of(&m, d, there.work, op_work(call, kind) + 2 * ARENA_ALIGN);
    enum status status = op_run(&there, kind);
    mirror_back(&m, d);
    return status;
}

enum status op_case_run_call(struct call *call, enum row_kind kind) { return run_call_on(call, kind, test_device()); }

void op_case_run_on(struct op_case *c, enum row_kind kind, const struct device *d) {
    struct call call = op_case_call(c, kind);
    call.on = d->kind;
    int64_t bytes = op_work(&call, kind);
    uint16_t *work = aligned_alloc(ARENA_ALIGN, (size_t)arena_align(bytes + 2 * ARENA_ALIGN)), canary = 0x7ff9;
    for (int64_t i = 0; i < bytes / 2 + ARENA_ALIGN; i++) work[i] = canary;
    call.work = work;
    call.watched = true;
    assert_ok(run_call_on(&call, kind, d));
    assert_int_equal(work[bytes / 2], canary);
    if (bytes > 0) assert_int_not_equal(work[bytes / 2 - 1], canary);
    free(work);
}
void op_case_run(struct op_case *c, enum row_kind kind) { op_case_run_on(c, kind, test_device()); }

void op_case_run_all(struct op_case *c) {
    op_case_run(c, ROW_FORWARD);
    if (c->step.op->has_backward_input) op_case_run(c, ROW_BACKWARD_INPUT);
    if (c->step.op->has_backward_weight) op_case_run(c, ROW_BACKWARD_WEIGHT);
}

/* ---- op.c itself ---- */

TEST(test_op_run_refuses_a_missing_kernel) {
    struct type x = op_type(INT32, "BT", 1, 2), y;
    struct step step = {.op = &op_gelu, .n_in = 1, .n_out = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .out = {{NULL, &y}}};
    assert_fails(op_run(&call, ROW_FORWARD), E_CONFIG, "gelu", "forward", "int32", "cpu");
    x.dtype = FP32;
    assert_fails(op_run(&call, ROW_BACKWARD_WEIGHT), E_CONFIG, "gelu", "backward_weight", "fp32");
    assert_fails(op_run(&call, ROW_WAIT), E_CONFIG, "gelu");
}

TEST(test_op_dtype_is_the_weights_when_the_input_is_integer) {
    struct type tokens = op_type(INT32, "BT", 1, 2), w = op_type(BF16, "VC", 3, 4);
    struct step step = {.op = &op_embedding, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &tokens}}, .weight = {{NULL, &w}}};
    assert_int_equal(op_dtype(&call), BF16);
    assert_int_equal(op_product_dtype(&call), BF16);
    tokens.dtype = FP8_E4M3;
    assert_int_equal(op_dtype(&call), BF16);                         /* kernels are chosen by the weight's */
    assert_int_equal(op_product_dtype(&call), FP8_E4M3);
}

TEST(test_op_n_out_leaves_masks_out_unless_stored) {
    assert_int_equal(op_n_out(&op_gelu, true), 1);
    assert_int_equal(op_n_out(&op_layernorm, false), 2);
    assert_int_equal(op_n_out(&op_bias_dropout_residual, false), 1);
    assert_int_equal(op_n_out(&op_bias_dropout_residual, true), 2);
    assert_int_equal(op_n_out(&op_attention_materialised, false), 2);
    assert_int_equal(op_n_out(&op_attention_materialised, true), 4);
    assert_int_equal(op_n_out(&op_attention_blocked, true), 2);
}

TEST(test_op_cost_counts_each_operand_once) {
    struct type x = op_type(FP32, "BTC", 2, 3, 5);
    struct step step = {.op = &op_gelu, .n_in = 1, .n_out = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .out = {{NULL, &x}}};
    assert_close(op_cost(&call, ROW_FORWARD).bytes, 2 * 120, 0);
    assert_close(op_cost(&call, ROW_BACKWARD_INPUT).bytes, 3 * 120, 0);   /* x, dy, dx */
    assert_int_equal(op_work(&call, ROW_FORWARD), 0);
}

TESTS(unit_test(test_op_run_refuses_a_missing_kernel),
      unit_test(test_op_dtype_is_the_weights_when_the_input_is_integer),
      unit_test(test_op_n_out_leaves_masks_out_unless_stored),
      unit_test(test_op_cost_counts_each_operand_once))
