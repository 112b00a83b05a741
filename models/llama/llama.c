/* The model as a list of steps; llama.h has the formulas, models/gpt/gpt.c the same for GPT-2. */
#include "models/llama/llama.h"

#include "lib/base/integer.h"
#include "lib/checkpoint/checkpoint_model.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/embedding.h"
#include "lib/ops/linear.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"
#include "lib/run/build.h"
#include "models/llama/families/family.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static int rmsnorm(struct builder *b, const char *name, const char *gain, int x) {
    return build_step(b, &op_rmsnorm, name, (struct inputs){x, NONE, build_vector(b, gain, "C", 1), NONE});
}

/* A half of a layer has its norm before, or after (--post-norm). */
static int norm_before(struct builder *b, const char *name, const char *gain, int x) {
    return llama_options(b->plan)->post_norm ? x : rmsnorm(b, name, gain, x);
}
static int norm_after(struct builder *b, const char *name, const char *gain, int x) {
    return llama_options(b->plan)->post_norm ? rmsnorm(b, name, gain, x) : x;
}

/* Queries or keys have a norm with --qk-norm. all: the axes of its gain, if all heads are one row. */
static int norm_heads(struct builder *b, const char *name, const char *gain, const char *all, int x) {
    enum llama_qk_norm kind = (enum llama_qk_norm)llama_options(b->plan)->qk_norm;
    if (kind == QK_NORM_NONE) return x;
    int g = build_vector(b, gain, kind == QK_NORM_HEAD ? "D" : all, 1);
    return build_step(b, kind == QK_NORM_HEAD ? &op_rmsnorm_head : &op_rmsnorm_heads, name,
                      (struct inputs){x, NONE, g, NONE});
}

/* bias: its name; its axes are those of the output. NULL: there is none. */
static int linear(struct builder *b, const char *name, const char *weight, const char *axes, double std,
                  const char *bias, int x) {
    char out[8];
    int w = build_matrix(b, weight, axes, std), n = (int)strlen(axes) - 1;
    snprintf(out, sizeof out, "%.*s", n, axes);
    return build_step(b, &op_linear, name, (struct inputs){x, NONE, w, bias ? build_vector(b, bias, out, 0) : NONE});
}

/* bias: of the product whose sum x is, which may be partial. */
static int residual(struct builder *b, const char *name, const char *bias, int x, int stream) {
    const struct op *op = bias ? &op_bias_dropout_residual : &op_dropout_residual;
    return build_dropout(b, build_step(b, op, name,
                                       (struct inputs){x, stream, bias ? build_vector(b, bias, "C", 0) : NONE, NONE}));
}

static const struct mla_options *mla(const struct plan *plan) { return &llama_options(plan)->mla; }
static const struct moe_options *moe(const struct plan *plan) { return &llama_options(plan)->moe; }

/* llama_build has checked the option. */
static struct rope_rule positions(const struct plan *plan) {
    struct rope_rule rule = {.theta = (double)llama_options(plan)->rope_theta};
    (void)rope_rule_read(llama_options(plan)->rope_scaling, &rule);
    rule.neighbors = mla(plan)->rope_interleave;
    return rule;
}

static int turn(struct builder *b, const char *name, int x) {
    int y = build_step(b, &op_rope, name, (struct inputs){x, NONE, NONE, NONE});
    b->p->steps[b->p->n_steps - 1].rope = positions(b->plan);
    return y;
}

int64_t llama_window(const struct plan *plan, int64_t layer) {
    const char *layers = llama_options(plan)->window_layers;
    size_t n = strlen(layers);
    return n && layers[(size_t)layer % n] == 'f' ? 0 : llama_options(plan)->window;
}

static void queries_and_keys(struct builder *b, int h, int *q, int *kv) {
    bool bias = llama_options(b->plan)->attention_bias;
    *q = linear(b, "q", "q.w", "HDC", 0.02, bias ? "q.b" : NULL, h);
    *kv = linear(b, "kv", "kv.w", "2JDC", 0.02, bias ? "kv.b" : NULL, h);
    *q = turn(b, "q.turned", norm_heads(b, "q.norm", "q.norm.g", "HD", *q));
    *kv = turn(b, "k.turned", norm_heads(b, "k.norm", "k.norm.g", "JD", *kv));
}

static int core(struct builder *b, int layer, int q, int kv) {
    const struct op *op =
        model_options(b->plan)->attention == ATTENTION_BLOCKED ? &op_attention_blocked : &op_attention_materialised;
    int sinks = llama_options(b->plan)->attention_sinks ? build_vector(b, "sinks", "H", 0) : NONE;
    int y = build_dropout(b, build_step(b, op, "att", (struct inputs){q, kv, sinks, NONE}));
    struct attention_rule *rule = &b->p->steps[b->p->n_steps - 1].attention;
    rule->view = (struct attention_view){llama_window(b->plan, layer), llama_options(b->plan)->attention_cap,
                                         sinks != NONE};
    return y;
}

static int attention_half(struct builder *b, int layer, int x, double residual_std) {
    const struct mla_options *latent = mla(b->plan);
    const struct rope_rule rope = positions(b->plan);
    int h = norm_before(b, "norm1", "norm1.g", x), q, kv, w;
    if (latent->kv_lora_rank) {
        q = mla_queries(b, latent, &rope, h);
        kv = mla_keys_and_values(b, latent, &rope, h);
        h = mla_outputs(b, latent, &rope, core(b, layer, q, kv));
        w = mla_projection(b, latent, residual_std);
    } else {
        queries_and_keys(b, h, &q, &kv);
        h = core(b, layer, q, kv);
        w = build_matrix(b, "proj.w", "CHD", residual_std);
    }
    h = norm_after(b, "post1", "post1.g", build_step(b, &op_linear, "proj", (struct inputs){h, NONE, w, NONE}));
    return residual(b, "res1", llama_options(b->plan)->attention_bias == BIAS_ALL ? "proj.b" : NULL, h, x);
}

static int mlp_half(struct builder *b, int layer, int x, double residual_std) {
    int h = norm_before(b, "norm2", "norm2.g", x);
    if (moe_has_experts(b->plan, moe(b->plan), layer)) {
        int shared = moe_shared(b, moe(b->plan), h, residual_std);
        if (shared != NONE) x = residual(b, "res.shared", NULL, shared, x);
        h = norm_after(b, "post2", "post2.g", moe_experts(b, moe(b->plan), h, residual_std));
        return residual(b, "res2", NULL, h, x);
    }
    bool bias = llama_options(b->plan)->mlp_bias;
    h = linear(b, "up", "up.w", "2KC", 0.02, bias ? "up.b" : NULL, h);
    h = build_step(b, activation_op(b->act), "swiglu", (struct inputs){h, NONE, NONE, NONE});
    h = norm_after(b, "post2", "post2.g", linear(b, "down", "down.w", "CK", residual_std, NULL, h));
    return residual(b, "res2", bias ? "down.b" : NULL, h, x);
}

static int layer(struct builder *b, int index, int x) {
    char name[16];
    snprintf(name, sizeof name, "h%d", index);
    double residual_std = 0.02 / sqrt(2.0 * (double)b->plan->layers);  /* 1/sqrt(number of residual additions) */
    int block = program_add_block(b->p, name, x, true);
    x = attention_half(b, index, x, residual_std);
    return b->p->blocks[block].out[0] = mlp_half(b, index, x, residual_std);
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
    int64_t channels = plan_head_dim(plan);
    if (channels % 2 == 0) return OK;
    if (model_options(plan)->head_dim)
        return FAIL(E_CONFIG, "head-dim=%" PRId64 ", and rotary positions turn pairs of channels; use %" PRId64,
                    channels, channels + 1);
    return FAIL(E_CONFIG, "heads=%" PRId64 " of hidden=%" PRId64 " have %" PRId64 " channels each, and rotary "
                          "positions turn pairs of channels; use hidden %" PRId64,
                plan->heads, plan->hidden, channels, (channels + 1) * plan->heads);
}

static enum status check_window(const struct llama_options *o) {
    const char *layers = o->window_layers;
    if (!layers[0] || layers[strspn(layers, "sf")] || strlen(layers) > MODEL_LETTERS_MAX)
        return FAIL(E_CONFIG, "window-layers=%.80s; use letters s and f, at most 128, which are repeated over the "
                    "layers (s has the window, f sees all tokens), or leave window-layers out", layers);
    if (o->window || !strcmp(layers, "s")) return OK;
    return FAIL(E_CONFIG, "window-layers=%.80s says which layers have a window, and window=0; give --window, or use "
                "--window-layers s", layers);
}

enum status llama_build(const struct plan *plan, struct program *p) {
    const char *scaling = llama_options(plan)->rope_scaling;
    struct rope_rule rule = {0};
    if (strlen(scaling) >= MODEL_VALUE_MAX)
        return FAIL(E_CONFIG, "rope-scaling=%.40s has %zu bytes, and a checkpoint keeps %d; use fewer digits", scaling,
                    strlen(scaling), MODEL_VALUE_MAX - 1);
    TRY(moe_check(plan, moe(plan)));
    if (!mla(plan)->kv_lora_rank) TRY(refuse_odd_heads(plan));
    TRY(check_window(llama_options(plan)));
    TRY(rope_rule_read(scaling, &rule));
    TRY(mla_check(plan, mla(plan), &rule, llama_options(plan)->qk_norm || llama_options(plan)->attention_bias));
    if (llama_options(plan)->mlp_bias && model_options(plan)->experts)
        return FAIL(E_CONFIG, "mlp-bias=on is of MLPs, and that of experts is --expert-bias; use --mlp-bias off, or "
                    "--experts 0");
    if (llama_options(plan)->post_norm && (llama_options(plan)->attention_bias == BIAS_ALL ||
                                           llama_options(plan)->mlp_bias))
        return FAIL(E_CONFIG, "post-norm=on, and the biases of proj and down would come behind the norm; use "
                    "--attention-bias qkv or none, and --mlp-bias off");
    if (llama_options(plan)->post_norm && moe(plan)->shared_experts)
        return FAIL(E_CONFIG, "post-norm=on, and shared-experts=%" PRId64 " would come behind no norm; use --post-norm "
                    "off, or --shared-experts 0", moe(plan)->shared_experts);
    if (llama_options(plan)->qk_norm && plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "sums=fixed has no order for sums over heads, which qk-norm makes; use sums=fast");
    if (llama_options(plan)->attention_sinks && plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "sums=fixed has no order for attention-sinks=on; use sums=fast, or "
                    "--attention-sinks off");
    struct builder b = {.plan = plan, .p = p};
    TRY(activation_choose(model_options(plan)->activation, ACTIVATION_SWIGLU, ACTIVATIONS_GATED, "llama", &b.act));
    int table, x = embedding(&b, &table);
    for (int64_t l = 0; l < plan->layers; l++) x = layer(&b, (int)l, x);
    head(&b, x, table);
    return OK;
}

/* ---- counting ---- */
static int64_t width(const struct plan *c) { return c->heads * plan_head_dim(c); }        /* of all queries */
static int64_t key_width(const struct plan *c) { return plan_kv_heads(c) * plan_head_dim(c); }
/* Parameters of all layers' matrices of queries, projection, keys, values and the MLP; with experts: of n experts, and
 * of the router. */
static int64_t matrices(const struct plan *c, int64_t n) {
    int64_t C = c->hidden, sum = 0;
    for (int64_t l = 0; l < c->layers; l++)
        sum += (mla(c)->kv_lora_rank ? mla_matrices(c, mla(c)) : 2 * (width(c) + key_width(c)) * C) +
               (moe_has_experts(c, moe(c), l) ? moe_matrices(c, moe(c), n) : 3 * plan_ffn(c) * C);
    return sum;
}
static int64_t layer_biases(const struct plan *c) {
    const struct llama_options *o = llama_options(c);
    return (o->attention_bias ? width(c) + 2 * key_width(c) : 0) + (o->attention_bias == BIAS_ALL ? c->hidden : 0) +
           (o->mlp_bias ? 2 * plan_ffn(c) + c->hidden : 0) + (o->attention_sinks ? c->heads : 0);
}
static int64_t layer_norms(const struct plan *c) {
    int kind = llama_options(c)->qk_norm;
    return 2 * c->hidden + mla_norms(mla(c)) +
           (kind == QK_NORM_ALL ? width(c) + key_width(c) : kind ? 2 * plan_head_dim(c) : 0);
}
int64_t llama_n_params(const struct plan *c) {
    const struct model_options *m = model_options(c);
    int64_t C = c->hidden, routers = 0;
    for (int64_t l = 0; l < c->layers; l++) routers += moe_has_experts(c, moe(c), l);
    return (m->tie ? 1 : 2) * c->vocab * C + C + matrices(c, m->experts) +
           c->layers * (layer_biases(c) + layer_norms(c)) + routers * moe_biases(c, moe(c));
}
int64_t llama_matmul_params(const struct plan *c) {
    return matrices(c, model_options(c)->experts_per_token) + c->vocab * c->hidden;
}
double llama_flops_per_token(const struct plan *c) {
    double keys = 0;                     /* of a query, in all layers */
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t window = llama_window(c, l);
        keys += (double)(window && window < c->seq ? window : c->seq);
    }
    int64_t value = mla(c)->kv_lora_rank ? mla_value(c, mla(c)) : plan_head_dim(c);
    return 6.0 * (double)llama_matmul_params(c) + 6.0 * (double)(width(c) + c->heads * value) * keys;
}

static const struct option OPTIONS[] = {
    {"rope-theta", OPTION_INT, "10000", 2, 1e12, NULL, "", "llama: base of the angles of rotary positions", "model",
     offsetof(struct llama_options, rope_theta)},
    {"rope-scaling", OPTION_TEXT, "none", 0, 0, NULL, "",
     "llama: slow rotary positions, for texts that are longer than those of the first training, CONTEXT tokens: none, "
     "linear:FACTOR, llama3:FACTOR:CONTEXT[:LOW:HIGH], yarn:FACTOR:CONTEXT[:SLOW:FAST[:ATTENTION]] or "
     "yarn-untruncated:... likewise (GPT-OSS)",
     "model", offsetof(struct llama_options, rope_scaling)},
    {"attention-bias", OPTION_CHOICE, "none", 0, 0, "none|qkv|all", "",
     "llama: biases of queries, keys and values (Qwen 2); all: of the projection, too", "model",
     offsetof(struct llama_options, attention_bias)},
    {"mlp-bias", OPTION_BOOL, "off", 0, 0, NULL, "", "llama: biases of the MLP", "model",
     offsetof(struct llama_options, mlp_bias)},
    {"qk-norm", OPTION_CHOICE, "none", 0, 0, "none|head|all", "",
     "llama: norms of queries and keys before positions turn them: of each head (Qwen 3), or of all heads together "
     "(OLMo 2)", "model", offsetof(struct llama_options, qk_norm)},
    {"post-norm", OPTION_BOOL, "off", 0, 0, NULL, "",
     "llama: norms come after attention and MLP, and not before (OLMo 2)", "model",
     offsetof(struct llama_options, post_norm)},
    {"window", OPTION_INT, "0", 0, MODEL_WINDOW_MAX, NULL, "tokens",
     "llama: a query sees itself and the window - 1 tokens before it (Mistral 7B's first version); 0: all before it",
     "model", offsetof(struct llama_options, window)},
    {"window-layers", OPTION_TEXT, "s", 0, 0, NULL, "",
     "llama: which layers have the window, a letter for each, repeated if there are fewer: s has it, f sees all tokens "
     "before it (sf: every other layer)", "model", offsetof(struct llama_options, window_layers)},
    {"attention-cap", OPTION_REAL, "0", 0, 1e6, NULL, "",
     "llama: a score s of attention becomes cap tanh(s / cap) (Gemma 2: 50); 0: it does not", "model",
     offsetof(struct llama_options, attention_cap)},
    {"attention-sinks", OPTION_BOOL, "off", 0, 0, NULL, "",
     "llama: each head has one more, learned score, of a key with value 0 (GPT-OSS)", "model",
     offsetof(struct llama_options, attention_sinks)},
    MOE_OPTIONS(struct llama_options, moe),
    MLA_OPTIONS(struct llama_options, mla),
};

#define PRESETS_OF(family) llama_presets_##family,
const struct model model_llama = {
    .name = "llama", .presets = {FAMILIES_OF_LLAMA(PRESETS_OF)}, .formats = llama_formats,
    .published = llama_published,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct llama_options)},
    .any_seq = true, .build = llama_build, .n_params = llama_n_params, .flops_per_token = llama_flops_per_token};

static enum status build_with_experts(const struct plan *plan, struct program *p) {
    if (model_options(plan)->experts == 0)
        return FAIL(E_CONFIG, "arch=%s is a mixture of experts, and experts=0; give --experts, or use arch llama",
                    plan->arch->name);
    return llama_build(plan, p);
}

/* The values of the options are in Llama's struct. */
#define WITH_EXPERTS(of_files)                                                                                         \
    .published = of_files, .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, 0}, .any_seq = true,                 \
    .build = build_with_experts, .n_params = llama_n_params, .flops_per_token = llama_flops_per_token
const struct model model_mixtral = {
    .name = "mixtral", .presets = {FAMILIES_OF_MIXTRAL(PRESETS_OF)}, .formats = mixtral_formats,
    WITH_EXPERTS(llama_published)};
const struct model model_moe = {
    .name = "moe", .presets = {FAMILIES_OF_MOE(PRESETS_OF)}, .formats = moe_formats, WITH_EXPERTS(moe_published)};
const struct model model_gpt_oss = {
    .name = "gpt_oss", .presets = {FAMILIES_OF_GPT_OSS(PRESETS_OF)}, .formats = gpt_oss_formats,
    WITH_EXPERTS(gpt_oss_published)};
