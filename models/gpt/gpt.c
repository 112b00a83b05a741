/* The model as a list of steps; gpt.h has the formulas. Each function below appends some steps to the list and returns
 * the slot of the last one's output (lib/program/program.h defines slots, params, steps and blocks). Nothing is
 * computed here: a step is computed by its op (lib/ops/op.h). Every axis has a letter. A technique reads these letters
 * and needs nothing else about a model. */
#include "models/gpt/gpt.h"

#include "lib/experts/experts.h"
#include "lib/ops/add_position.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/embedding.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/linear.h"
#include <inttypes.h>
#include <math.h>

static int layernorm(struct builder *b, const char *name, const char *gain, const char *bias, int x) {
    return build_step(b, &op_layernorm, name, (struct inputs){x, NONE, build_vector(b, gain, "C", 1),
                                                              build_vector(b, bias, "C", 0)});
}

static int residual(struct builder *b, const char *name, const char *bias, int x, int stream) {
    int y = build_step(b, &op_bias_dropout_residual, name,
                       (struct inputs){x, stream, build_vector(b, bias, "C", 0), NONE});
    return build_dropout(b, y);
}

static int attention_half(struct builder *b, int x, double residual_std) {
    const struct op *core =
        model_options(b->plan)->attention == ATTENTION_BLOCKED ? &op_attention_blocked : &op_attention_materialised;
    int h = layernorm(b, "ln1", "ln1.g", "ln1.b", x);
    int w = build_matrix(b, "qkv.w", "3HDC", 0.02), bias = build_vector(b, "qkv.b", "3HD", 0);
    h = build_step(b, &op_linear, "qkv", (struct inputs){h, NONE, w, bias});
    h = build_dropout(b, build_step(b, core, "att", (struct inputs){h, NONE, NONE, NONE}));
    h = build_step(b, &op_linear, "proj", (struct inputs){h, NONE, build_matrix(b, "proj.w", "CHD", residual_std),
                                                          NONE});
    return residual(b, "res1", "proj.b", h, x);
}

static int mlp_half(struct builder *b, int x, double residual_std) {
    int h = layernorm(b, "ln2", "ln2.g", "ln2.b", x);
    if (model_options(b->plan)->experts)
        return residual(b, "res2", "fc2.b", build_experts(b, NULL, h, b->act, residual_std), x);
    int w = build_matrix(b, "fc.w", "KC", 0.02), bias = build_vector(b, "fc.b", "K", 0);
    h = build_step(b, &op_linear, "fc", (struct inputs){h, NONE, w, bias});
    h = build_step(b, activation_op(b->act), "gelu", (struct inputs){h, NONE, NONE, NONE});
    h = build_step(b, &op_linear, "fc2", (struct inputs){h, NONE, build_matrix(b, "fc2.w", "CK", residual_std), NONE});
    return residual(b, "res2", "fc2.b", h, x);
}

static int layer(struct builder *b, int index, int x) {
    char name[16];
    snprintf(name, sizeof name, "h%d", index);
    double residual_std = 0.02 / sqrt(2.0 * (double)b->plan->layers);  /* GPT-2: 1/sqrt(number of residual additions) */
    int block = program_add_block(b->p, name, x, true);
    x = attention_half(b, x, residual_std);
    return b->p->blocks[block].out[0] = mlp_half(b, x, residual_std);
}

static int embedding(struct builder *b, int *wte) {
    int tokens = build_tokens(b, "embed");
    *wte = build_matrix(b, "wte", "VC", 0.02);
    int x = build_step(b, &op_embedding, "tok", (struct inputs){tokens, NONE, *wte, NONE});
    x = build_step(b, &op_add_position, "pos", (struct inputs){x, NONE, build_matrix(b, "wpe", "TC", 0.02), NONE});
    return b->p->blocks[0].out[0] = build_dropout(b, x);
}

static void head(struct builder *b, int x, int wte) {
    program_add_block(b->p, "head", x, false);
    x = layernorm(b, "lnf", "lnf.g", "lnf.b", x);
    build_head(b, x, model_options(b->plan)->tie ? wte : build_matrix(b, "w", "VC", 0.02), NONE);
}

enum status gpt_build(const struct plan *plan, struct program *p) {
    struct builder b = {.plan = plan, .p = p};
    TRY(activation_choose(model_options(plan)->activation, ACTIVATION_GELU_TANH, ACTIVATIONS_PLAIN, "gpt", &b.act));
    if (plan_kv_heads(plan) != plan->heads)
        return FAIL(E_CONFIG,
                    "kv-heads=%" PRId64 ": every head of gpt has keys of its own; use arch llama, or leave it out",
                    model_options(plan)->kv_heads);
    if (model_options(plan)->head_dim)
        return FAIL(E_CONFIG, "head-dim=%" PRId64 ": heads of gpt have hidden / heads channels; use arch llama, or "
                    "leave it out", model_options(plan)->head_dim);
    int wte, x = embedding(&b, &wte);
    for (int64_t l = 0; l < plan->layers; l++) x = layer(&b, (int)l, x);
    head(&b, x, wte);
    return OK;
}

/* ---- counting ---- */
/* Parameters of the MLP's matrices; with experts: of n experts, and of the router. */
static int64_t mlp_matrices(const struct plan *c, int64_t n) {
    int64_t mlp = 2 * c->hidden * plan_ffn(c);
    return model_options(c)->experts ? n * mlp + model_options(c)->experts * c->hidden : mlp;
}
int64_t gpt_n_params(const struct plan *c) {
    const struct model_options *m = model_options(c);
    int64_t C = c->hidden, inner_bias = m->experts ? 0 : plan_ffn(c);
    int64_t layer = 4 * C * C + mlp_matrices(c, m->experts) + 9 * C + inner_bias;
    return (m->tie ? 1 : 2) * c->vocab * C + c->seq * C + c->layers * layer + 2 * C;
}
int64_t gpt_matmul_params(const struct plan *c) {
    int64_t C = c->hidden;
    return c->layers * (4 * C * C + mlp_matrices(c, model_options(c)->experts_per_token)) + c->vocab * C;
}
double gpt_flops_per_token(const struct plan *c) {
    return 6.0 * (double)gpt_matmul_params(c) + 12.0 * (double)c->layers * (double)c->hidden * (double)c->seq;
}

const struct model model_gpt = {
    .name = "gpt", .presets = {gpt_presets}, .formats = gpt_formats, .published = gpt_published, .build = gpt_build,
    .n_params = gpt_n_params, .flops_per_token = gpt_flops_per_token};
