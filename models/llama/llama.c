/* The model as a list of steps; llama.h has the formulas, models/gpt/gpt.c the same for GPT-2. */
#include "models/llama/llama.h"

#include "lib/ops/attention/attention.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/embedding.h"
#include "lib/ops/linear.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"
#include "lib/ops/swiglu.h"
#include "lib/run/build.h"
#include <inttypes.h>
#include <math.h>

static int rmsnorm(struct builder *b, const char *name, const char *gain, int x) {
    return build_step(b, &op_rmsnorm, name, (struct inputs){x, NONE, build_vector(b, gain, "C", 1), NONE});
}

static int linear(struct builder *b, const char *name, const char *weight, const char *axes, double std, int x) {
    return build_step(b, &op_linear, name, (struct inputs){x, NONE, build_matrix(b, weight, axes, std), NONE});
}

static int residual(struct builder *b, const char *name, int x, int stream) {
    return build_dropout(b, build_step(b, &op_dropout_residual, name, (struct inputs){x, stream, NONE, NONE}));
}

static int attention_half(struct builder *b, int x, double residual_std) {
    const struct op *core =
        model_options(b->plan)->attention == ATTENTION_BLOCKED ? &op_attention_blocked : &op_attention_materialised;
    int h = rmsnorm(b, "norm1", "norm1.g", x);
    int q = linear(b, "q", "q.w", "HDC", 0.02, h), kv = linear(b, "kv", "kv.w", "2JDC", 0.02, h);
    q = build_step(b, &op_rope, "q.turned", (struct inputs){q, NONE, NONE, NONE});
    kv = build_step(b, &op_rope, "k.turned", (struct inputs){kv, NONE, NONE, NONE});
    h = build_dropout(b, build_step(b, core, "att", (struct inputs){q, kv, NONE, NONE}));
    return residual(b, "res1", linear(b, "proj", "proj.w", "CHD", residual_std, h), x);
}

static int mlp_half(struct builder *b, int x, double residual_std) {
    int h = rmsnorm(b, "norm2", "norm2.g", x);
    if (model_options(b->plan)->experts) return residual(b, "res2", build_experts(b, h, true, residual_std), x);
    h = linear(b, "up", "up.w", "2KC", 0.02, h);
    h = build_step(b, &op_swiglu, "swiglu", (struct inputs){h, NONE, NONE, NONE});
    return residual(b, "res2", linear(b, "down", "down.w", "CK", residual_std, h), x);
}

static int layer(struct builder *b, int index, int x) {
    char name[16];
    snprintf(name, sizeof name, "h%d", index);
    double residual_std = 0.02 / sqrt(2.0 * (double)b->plan->layers);  /* 1/sqrt(number of residual additions) */
    int block = program_add_block(b->p, name, x, true);
    x = attention_half(b, x, residual_std);
    return b->p->blocks[block].out[0] = mlp_half(b, x, residual_std);
}

static int embedding(struct builder *b, int *table) {
    int tokens = build_tokens(b, "embed");
    *table = build_matrix(b, "table", "VC", 0.02);
    int x = build_step(b, &op_embedding, "tok", (struct inputs){tokens, NONE, *table, NONE});
    return b->p->blocks[0].out[0] = x;
}

static void head(struct builder *b, int x, int table) {
    program_add_block(b->p, "head", x, false);
    x = rmsnorm(b, "norm", "norm.g", x);
    build_head(b, x, model_options(b->plan)->tie ? table : build_matrix(b, "w", "VC", 0.02), NONE);
}

/* Rotary positions turn pairs of channels. */
static enum status refuse_odd_heads(const struct plan *plan) {
    int64_t channels = plan->hidden / plan->heads;
    if (channels % 2 == 0) return OK;
    return FAIL(E_CONFIG, "heads=%" PRId64 " of hidden=%" PRId64 " have %" PRId64 " channels each, and rotary "
                          "positions turn pairs of channels; use hidden %" PRId64,
                plan->heads, plan->hidden, channels, (channels + 1) * plan->heads);
}

enum status llama_build(const struct plan *plan, struct program *p) {
    TRY(refuse_odd_heads(plan));
    struct builder b = {plan, p};
    int table, x = embedding(&b, &table);
    for (int64_t l = 0; l < plan->layers; l++) x = layer(&b, (int)l, x);
    head(&b, x, table);
    return OK;
}

/* ---- counting ---- */
/* Parameters of the matrices of queries, projection, keys, values and the MLP; with experts: of n experts, and of the
 * router. */
static int64_t layer_matrices(const struct plan *c, int64_t n) {
    int64_t C = c->hidden, key_width = plan_kv_heads(c) * (C / c->heads), mlp = 3 * plan_ffn(c) * C;
    return 2 * C * C + 2 * key_width * C + (model_options(c)->experts ? n * mlp + model_options(c)->experts * C : mlp);
}
int64_t llama_n_params(const struct plan *c) {
    const struct model_options *m = model_options(c);
    int64_t C = c->hidden;
    return (m->tie ? 1 : 2) * c->vocab * C + c->layers * (layer_matrices(c, m->experts) + 2 * C) + C;
}
int64_t llama_matmul_params(const struct plan *c) {
    return c->layers * layer_matrices(c, model_options(c)->experts_per_token) + c->vocab * c->hidden;
}
double llama_flops_per_token(const struct plan *c) {
    return 6.0 * (double)llama_matmul_params(c) + 12.0 * (double)c->layers * (double)c->hidden * (double)c->seq;
}

const struct model model_llama = {
    .name = "llama", .presets = llama_presets, .formats = llama_formats, .published = llama_published,
    .any_seq = true, .build = llama_build, .n_params = llama_n_params, .flops_per_token = llama_flops_per_token};

static enum status mixtral_build(const struct plan *plan, struct program *p) {
    if (model_options(plan)->experts == 0)
        return FAIL(E_CONFIG, "arch=mixtral is a mixture of experts, and experts=0; give --experts, or use arch llama");
    return llama_build(plan, p);
}

const struct model model_mixtral = {
    .name = "mixtral", .presets = mixtral_presets, .formats = mixtral_formats, .published = llama_published,
    .any_seq = true, .build = mixtral_build, .n_params = llama_n_params, .flops_per_token = llama_flops_per_token};
