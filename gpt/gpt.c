/* The model, written down step by step; gpt.h has it as formulas. Each function below adds a stretch of steps to the list
 * (lib/program/program.h says what slots, params, steps and blocks are) and returns the slot that it ends in. No number is
 * computed here: what a step does is its op's business (lib/ops/op.h). Axes carry letters, and those are all that a
 * technique has to know of a model. */
#include "gpt/gpt.h"

#include "lib/base/rng.h"
#include "lib/ops/add_position.h"
#include "lib/ops/attention.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/embedding.h"
#include "lib/ops/gelu.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/linear.h"
#include "lib/ops/linear_cross_entropy.h"
#include <math.h>

/* What the functions below share while they write the list. */
struct builder { const struct plan *plan; struct program *p; };

/* Axes by their letters, so that a technique can speak of "heads" and not of "dimension 1 of the qkv weight". */
static struct axis axis_of(const struct plan *c, char tag) {
    if (tag == 'B') return (struct axis){.tag = 'B', .n = c->micro_batch, .global = c->global_batch, .cut = 1u << AXIS_DP};
    if (tag == 'T') return axis_whole('T', c->seq);
    if (tag == 'C') return axis_whole('C', c->hidden);
    if (tag == 'H') return axis_whole('H', c->heads);
    if (tag == 'D') return axis_whole('D', c->hidden / c->heads);
    if (tag == 'K') return axis_whole('K', 4 * c->hidden);
    if (tag == 'V') return (struct axis){.tag = 'V', .n = plan_vocab_rows(c, 1), .global = c->vocab};
    return axis_whole('3', 3);
}

static struct type type_of(const struct plan *c, const char *tags, enum dtype dtype) {
    struct type t = {.dtype = dtype};
    for (; *tags; tags++) t.shape.axis[t.shape.n_axes++] = axis_of(c, *tags);
    return t;
}

static const char *block_name(const struct builder *b) { return b->p->blocks[b->p->n_blocks - 1].name; }

/* ---- params ---- */
static int matrix(struct builder *b, const char *name, const char *tags, double std) {
    return program_add_param(b->p, block_name(b), name, type_of(b->plan, tags, plan_dtype(b->plan)), std, 0, true);
}
static int vector(struct builder *b, const char *name, const char *tags, double constant) {
    return program_add_param(b->p, block_name(b), name, type_of(b->plan, tags, plan_dtype(b->plan)), 0, constant, false);
}

/* ---- steps ---- */
enum { NONE = -1 };
struct inputs { int x, second, weight, bias; };

static bool stores_masks(const struct plan *plan) { return plan->dropout > 0 && plan->dropout_masks == MASKS_STORE; }

/* The slots of a step's outputs: `name`, then what else the op keeps for its backward: `name`.stat, `name`.mask. */
static void add_outputs(struct builder *b, struct step *s, const char *name) {
    int n = op_n_out(s->op, stores_masks(b->plan));
    s->out[s->n_out++] = program_add_slot(b->p, block_name(b), name);
    while (s->n_out < n) {
        char more[NAME_MAX_LEN];
        snprintf(more, sizeof more, "%s.%s", name, s->op->out_name[s->n_out]);
        s->out[s->n_out++] = program_add_slot(b->p, block_name(b), more);
    }
}

/* Append a step that makes slot `name`. Returns its first output. */
static int add(struct builder *b, const struct op *op, const char *name, struct inputs in) {
    struct program *p = b->p;
    struct step s = {.op = op, .block = p->n_blocks - 1, .parts = 1};
    s.in[s.n_in++] = in.x;
    if (in.second != NONE) s.in[s.n_in++] = in.second;
    if (in.weight != NONE) s.weight[s.n_weight++] = in.weight;
    if (in.bias != NONE) s.weight[s.n_weight++] = in.bias;
    add_outputs(b, &s, name);
    s.stream = rng_stream(p->slots[s.out[0]].name);
    program_insert(p, p->n_steps, &s);
    return s.out[0];
}

static int with_dropout(struct builder *b, int slot) {
    b->p->steps[b->p->n_steps - 1].p = b->plan->dropout;
    return slot;
}

static int layernorm(struct builder *b, const char *name, const char *gain, const char *bias, int x) {
    return add(b, &op_layernorm, name, (struct inputs){x, NONE, vector(b, gain, "C", 1), vector(b, bias, "C", 0)});
}

static int residual(struct builder *b, const char *name, const char *bias, int x, int stream) {
    int y = add(b, &op_bias_dropout_residual, name, (struct inputs){x, stream, vector(b, bias, "C", 0), NONE});
    return with_dropout(b, y);
}

static int attention_half(struct builder *b, int x, double residual_std) {
    const struct op *core = b->plan->attention == ATTENTION_BLOCKED ? &op_attention_blocked : &op_attention_materialised;
    int h = layernorm(b, "ln1", "ln1.g", "ln1.b", x);
    int w = matrix(b, "qkv.w", "3HDC", 0.02), bias = vector(b, "qkv.b", "3HD", 0);
    h = add(b, &op_linear, "qkv", (struct inputs){h, NONE, w, bias});
    h = with_dropout(b, add(b, core, "att", (struct inputs){h, NONE, NONE, NONE}));
    h = add(b, &op_linear, "proj", (struct inputs){h, NONE, matrix(b, "proj.w", "CHD", residual_std), NONE});
    return residual(b, "res1", "proj.b", h, x);
}

static int mlp_half(struct builder *b, int x, double residual_std) {
    int h = layernorm(b, "ln2", "ln2.g", "ln2.b", x);
    int w = matrix(b, "fc.w", "KC", 0.02), bias = vector(b, "fc.b", "K", 0);
    h = add(b, &op_linear, "fc", (struct inputs){h, NONE, w, bias});
    h = add(b, &op_gelu, "gelu", (struct inputs){h, NONE, NONE, NONE});
    h = add(b, &op_linear, "fc2", (struct inputs){h, NONE, matrix(b, "fc2.w", "CK", residual_std), NONE});
    return residual(b, "res2", "fc2.b", h, x);
}

static int layer(struct builder *b, int index, int x) {
    char name[16];
    snprintf(name, sizeof name, "h%d", index);
    double residual_std = 0.02 / sqrt(2.0 * (double)b->plan->layers);  /* GPT-2: 1/sqrt(number of residual additions) */
    int block = program_add_block(b->p, name, x, true);
    x = attention_half(b, x, residual_std);
    return b->p->blocks[block].out = mlp_half(b, x, residual_std);
}

static int embedding(struct builder *b, int *wte) {
    struct program *p = b->p;
    int block = program_add_block(p, "embed", NONE, false);
    *wte = matrix(b, "wte", "VC", 0.02);
    p->tokens = program_add_slot(p, "data", "tokens");
    p->slots[p->tokens].type = type_of(b->plan, "BT", INT32);
    int x = add(b, &op_embedding, "tok", (struct inputs){p->tokens, NONE, *wte, NONE});
    x = add(b, &op_add_position, "pos", (struct inputs){x, NONE, matrix(b, "wpe", "TC", 0.02), NONE});
    return p->blocks[block].out = with_dropout(b, x);
}

static void head(struct builder *b, int x, int wte) {
    struct program *p = b->p;
    program_add_block(p, "head", x, false);
    p->targets = program_add_slot(p, "data", "targets");
    p->slots[p->targets].type = type_of(b->plan, "BT", INT32);
    int h = layernorm(b, "lnf", "lnf.g", "lnf.b", x);
    if (b->plan->loss_chunk > 0) {
        p->loss = add(b, &op_linear_cross_entropy, "loss", (struct inputs){h, p->targets, wte, NONE});
        p->steps[p->n_steps - 1].rows = b->plan->loss_chunk;
        return;
    }
    h = add(b, &op_linear, "logits", (struct inputs){h, NONE, wte, NONE});
    p->loss = add(b, &op_cross_entropy, "loss", (struct inputs){h, p->targets, NONE, NONE});
}

enum status gpt_build(const struct plan *plan, struct program *p) {
    struct builder b = {plan, p};
    int wte, x = embedding(&b, &wte);
    for (int64_t l = 0; l < plan->layers; l++) x = layer(&b, (int)l, x);
    head(&b, x, wte);
    return OK;
}

/* ---- counting ---- */
int64_t gpt_n_params(const struct plan *c) {
    int64_t C = c->hidden;
    return c->vocab * C + c->seq * C + c->layers * (12 * C * C + 13 * C) + 2 * C;
}
int64_t gpt_matmul_params(const struct plan *c) { return c->layers * 12 * c->hidden * c->hidden + c->vocab * c->hidden; }
double gpt_flops_per_token(const struct plan *c) {
    return 6.0 * (double)gpt_matmul_params(c) + 12.0 * (double)c->layers * (double)c->hidden * (double)c->seq;
}
