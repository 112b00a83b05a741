/* The model as a list of steps; bert.h has the formulas, models/gpt/gpt.c the same for GPT-2. */
#include "models/bert/bert.h"

#include "lib/ops/add_position.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/dropout.h"
#include "lib/ops/embedding.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/linear.h"
#include "lib/run/build.h"
#include <inttypes.h>

static const double STD = 0.02;

static struct step *last_step(struct builder *b) { return &b->p->steps[b->p->n_steps - 1]; }

static int norm(struct builder *b, const char *name, const char *gain, const char *bias, int x) {
    int y = build_step(b, &op_layernorm, name, (struct inputs){x, NONE, build_vector(b, gain, "C", 1),
                                                               build_vector(b, bias, "C", 0)});
    if (!last_step(b)->norm.eps) last_step(b)->norm.eps = 1e-12;
    return y;
}

static int gelu(struct builder *b, const char *name, int x) {
    return build_step(b, activation_op(b->act), name, (struct inputs){x, NONE, NONE, NONE});
}

static int residual(struct builder *b, const char *name, const char *bias, int x, int stream) {
    return build_dropout(b, build_step(b, &op_bias_dropout_residual, name,
                                       (struct inputs){x, stream, build_vector(b, bias, "C", 0), NONE}));
}

static int attention(struct builder *b, int x) {
    const struct op *core =
        model_options(b->plan)->attention == ATTENTION_BLOCKED ? &op_attention_blocked : &op_attention_materialised;
    int y = build_dropout(b, build_step(b, core, "att", (struct inputs){x, NONE, NONE, NONE}));
    last_step(b)->attention.mask = MASK_FULL;
    return y;
}

static int attention_half(struct builder *b, int x) {
    int w = build_matrix(b, "qkv.w", "3HDC", STD), bias = build_vector(b, "qkv.b", "3HD", 0);
    int h = attention(b, build_step(b, &op_linear, "qkv", (struct inputs){x, NONE, w, bias}));
    h = build_step(b, &op_linear, "proj", (struct inputs){h, NONE, build_matrix(b, "proj.w", "CHD", STD), NONE});
    return norm(b, "ln1", "ln1.g", "ln1.b", residual(b, "res1", "proj.b", h, x));
}

static int mlp_half(struct builder *b, int x) {
    int w = build_matrix(b, "fc.w", "KC", STD), bias = build_vector(b, "fc.b", "K", 0);
    int h = gelu(b, "gelu", build_step(b, &op_linear, "fc", (struct inputs){x, NONE, w, bias}));
    h = build_step(b, &op_linear, "fc2", (struct inputs){h, NONE, build_matrix(b, "fc2.w", "CK", STD), NONE});
    return norm(b, "ln2", "ln2.g", "ln2.b", residual(b, "res2", "fc2.b", h, x));
}

static int layer(struct builder *b, int index, int x) {
    char name[16];
    snprintf(name, sizeof name, "h%d", index);
    int block = program_add_block(b->p, name, x, true);
    return b->p->blocks[block].out[0] = mlp_half(b, attention_half(b, x));
}

/* op_dropout_residual without dropout adds the two embeddings. */
static int embedding(struct builder *b, int *word) {
    int tokens = build_tokens(b, "embed"), segments = build_data(b, DATA_SEGMENTS, "segments");
    *word = build_matrix(b, "word", "VC", STD);
    int x = build_step(b, &op_embedding, "tok", (struct inputs){tokens, NONE, *word, NONE});
    int y = build_step(b, &op_embedding, "seg", (struct inputs){segments, NONE, build_matrix(b, "type", "2C", STD),
                                                                NONE});
    x = build_step(b, &op_dropout_residual, "sum", (struct inputs){y, x, NONE, NONE});
    x = build_step(b, &op_add_position, "pos", (struct inputs){x, NONE, build_matrix(b, "pos.w", "TC", STD), NONE});
    x = build_step(b, &op_dropout, "drop", (struct inputs){norm(b, "ln", "ln.g", "ln.b", x), NONE, NONE, NONE});
    return b->p->blocks[0].out[0] = build_dropout(b, x);
}

/* dense reads and writes C channels, so both axes of its matrix are C. */
static void head(struct builder *b, int x, int word) {
    program_add_block(b->p, "head", x, false);
    int w = build_matrix(b, "dense.w", "CC", STD), bias = build_vector(b, "dense.b", "C", 0);
    x = build_step(b, &op_linear, "dense", (struct inputs){x, NONE, w, bias});
    x = norm(b, "ln", "ln.g", "ln.b", gelu(b, "gelu", x));
    bool tie = model_options(b->plan)->tie;
    build_head(b, x, tie ? word : build_matrix(b, "w", "VC", STD), build_vector(b, "b", "V", 0));
}

static enum status check(const struct plan *plan) {
    const struct model_options *m = model_options(plan);
    if (plan_kv_heads(plan) != plan->heads)
        return FAIL(E_CONFIG,
                    "kv-heads=%" PRId64 ": every head of bert has keys of its own; use arch llama, or leave it out",
                    m->kv_heads);
    if (m->head_dim)
        return FAIL(E_CONFIG, "head-dim=%" PRId64 ": heads of bert have hidden / heads channels; use arch llama, or "
                    "leave it out", m->head_dim);
    if (m->experts)
        return FAIL(E_CONFIG, "experts=%" PRId64 ": bert has one MLP a layer; use arch gpt, or leave it out",
                    m->experts);
    return OK;
}

enum status bert_build(const struct plan *plan, struct program *p) {
    struct builder b = {.plan = plan, .p = p};
    TRY(check(plan));
    TRY(activation_choose(model_options(plan)->activation, ACTIVATION_GELU, ACTIVATIONS_PLAIN, "bert", &b.act));
    int word, x = embedding(&b, &word);
    for (int64_t l = 0; l < plan->layers; l++) x = layer(&b, (int)l, x);
    head(&b, x, word);
    return OK;
}

/* ---- counting ---- */
static int64_t layer_matrices(const struct plan *c) { return 4 * c->hidden * c->hidden + 2 * c->hidden * plan_ffn(c); }
int64_t bert_n_params(const struct plan *c) {
    int64_t C = c->hidden, embedding = (c->vocab + c->seq + 2 + 2) * C;
    int64_t head = C * C + 3 * C + c->vocab + (model_options(c)->tie ? 0 : c->vocab * C);
    return embedding + c->layers * (layer_matrices(c) + 9 * C + plan_ffn(c)) + head;
}
int64_t bert_matmul_params(const struct plan *c) {
    return c->layers * layer_matrices(c) + (c->hidden + c->vocab) * c->hidden;
}
double bert_flops_per_token(const struct plan *c) {
    return 6.0 * (double)bert_matmul_params(c) + 12.0 * (double)c->layers * (double)c->hidden * (double)c->seq;
}

static const struct option OPTIONS[] = {
    {"mask-token", OPTION_INT, "-1", -1, 2e9, NULL, "",
     "bert: the token that stands in place of a masked one; -1: 103 where vocab is that of a published BERT, else the "
     "vocabulary's last", "model", offsetof(struct bert_options, mask_token)},
};

const struct model model_bert = {
    .name = "bert", .presets = {bert_presets}, .formats = bert_formats, .published = bert_published,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct bert_options)}, .build = bert_build,
    .sample = bert_sample, .own_tokens = bert_own_tokens, .n_targets = bert_n_masked, .n_params = bert_n_params,
    .flops_per_token = bert_flops_per_token};
