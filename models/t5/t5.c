/* The model as a list of steps; t5.h has the formulas, models/gpt/gpt.c the same for GPT-2. */
#include "models/t5/t5.h"

#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_bias.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/dropout.h"
#include "lib/ops/embedding.h"
#include "lib/ops/linear.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/scale.h"
#include "lib/run/build.h"
#include <inttypes.h>
#include <math.h>

enum { ENCODER, DECODER };   /* streams */

static struct step *last_step(struct builder *b) { return &b->p->steps[b->p->n_steps - 1]; }

/* Initial deviation of a matrix that sums over n numbers. */
static double std_of(int64_t n) { return 1 / sqrt((double)n); }

static int norm(struct builder *b, const char *name, const char *gain, int x) {
    int y = build_step(b, &op_rmsnorm, name, (struct inputs){x, NONE, build_vector(b, gain, "C", 1), NONE});
    if (!last_step(b)->norm.eps) last_step(b)->norm.eps = 1e-6;
    return y;
}

static int product(struct builder *b, const char *name, const char *weight, const char *axes, double std, int x) {
    return build_step(b, &op_linear, name, (struct inputs){x, NONE, build_matrix(b, weight, axes, std), NONE});
}

static int residual(struct builder *b, const char *name, int x, int stream) {
    return build_dropout(b, build_step(b, &op_dropout_residual, name, (struct inputs){x, stream, NONE, NONE}));
}

static int dropped(struct builder *b, const char *name, int x) {
    return build_dropout(b, build_step(b, &op_dropout, name, (struct inputs){x, NONE, NONE, NONE}));
}

/* keys: the slot that keys and values are computed from. bias: the table of distances, or NONE. */
struct sight { int keys; enum attention_mask mask; bool cross; int bias; };

static int attention(struct builder *b, const char *name, int q, int kv, struct sight s) {
    bool blocked = model_options(b->plan)->attention == ATTENTION_BLOCKED;
    const struct op *core = blocked ? &op_attention_blocked : &op_attention_materialised;
    int y = build_dropout(b, build_step(b, core, name, (struct inputs){q, kv, s.bias, NONE}));
    struct attention_rule *rule = &last_step(b)->attention;
    rule->mask = s.mask, rule->cross = s.cross, rule->unscaled = true;
    return y;
}

/* x + o(attention(q, kv)). q reads norm(x), kv norm(x) or s.keys. Names of cross-attention begin with an x. */
static int attention_part(struct builder *b, int part, int x, struct sight s) {
    static const char *const names[2][8] = {{"q", "kv", "att", "o", "q.w", "kv.w", "o.w", "res1"},
                                            {"xq", "xkv", "xatt", "xo", "xq.w", "xkv.w", "xo.w", "res2"}};
    static const char *const norms[2][2] = {{"ln1", "ln1.g"}, {"ln2", "ln2.g"}};
    const char *const *n = names[part];
    int64_t C = b->plan->hidden, D = plan_head_dim(b->plan);
    int h = norm(b, norms[part][0], norms[part][1], x);
    int q = product(b, n[0], n[4], "HDC", std_of(C * D), h);
    int kv = product(b, n[1], n[5], "2JDC", std_of(C), s.cross ? s.keys : h);
    h = product(b, n[3], n[6], "CHD", std_of(b->plan->heads * D), attention(b, n[2], q, kv, s));
    return residual(b, n[7], h, x);
}

static int mlp_part(struct builder *b, int x) {
    bool gated = activation_is_gated(b->act);
    int h = product(b, gated ? "up" : "fc", gated ? "up.w" : "fc.w", gated ? "2KC" : "KC", std_of(b->plan->hidden),
                    norm(b, "ln3", "ln3.g", x));
    h = dropped(b, "drop", build_step(b, activation_op(b->act), "act", (struct inputs){h, NONE, NONE, NONE}));
    return residual(b, "res3", product(b, "fc2", "fc2.w", "CK", std_of(plan_ffn(b->plan)), h), x);
}

/* ---- blocks: the input streams of a block are the output streams of the block before ---- */
/* @return the layer's block index */
static int open_layer(struct builder *b, char stack, int64_t index) {
    char name[16];
    snprintf(name, sizeof name, "%c%d", stack, (int)index);
    const int *in = b->p->blocks[b->p->n_blocks - 1].out;
    int encoder = in[ENCODER], decoder = in[DECODER];
    int at = program_add_block(b->p, name, encoder, true);
    struct block *block = &b->p->blocks[at];
    block->in[DECODER] = decoder;
    block->out[ENCODER] = encoder, block->out[DECODER] = decoder;    /* default: both streams pass through */
    return at;
}

static int bias_table(struct builder *b) { return build_matrix(b, "bias", "RH", std_of(b->plan->hidden)); }

static void encoder_layer(struct builder *b, int64_t index, int64_t n, int *bias) {
    int block = open_layer(b, 'e', index), x = b->p->blocks[block].in[ENCODER];
    if (index == 0) *bias = bias_table(b);
    x = mlp_part(b, attention_part(b, 0, x, (struct sight){x, MASK_FULL, false, *bias}));
    if (index == n - 1) x = dropped(b, "out", norm(b, "ln", "ln.g", x));
    b->p->blocks[block].out[ENCODER] = x;
}

static void decoder_layer(struct builder *b, int64_t index, int *bias) {
    int block = open_layer(b, 'd', index), y = b->p->blocks[block].in[DECODER];
    if (index == 0) *bias = bias_table(b);
    y = attention_part(b, 0, y, (struct sight){y, MASK_CAUSAL, false, *bias});
    y = attention_part(b, 1, y, (struct sight){b->p->blocks[block].in[ENCODER], MASK_FULL, true, NONE});
    b->p->blocks[block].out[DECODER] = mlp_part(b, y);
}

/* A data slot of T tokens, which is the encoder's or the decoder's number, not the text's. */
static int data_of(struct builder *b, enum data_kind kind, const char *name, int64_t T) {
    int slot = build_data(b, kind, name);
    b->p->slots[slot].type.shape.axis[1] = axis_whole('T', T);
    return slot;
}

static int embedding(struct builder *b, const struct t5_lengths *l) {
    program_add_block(b->p, "embed", NONE, false);
    int tokens = data_of(b, DATA_TOKENS, "tokens", l->encoder), wte = build_matrix(b, "wte", "VC", 1);
    int x = build_step(b, &op_embedding, "tok", (struct inputs){tokens, NONE, wte, NONE});
    b->p->blocks[0].out[ENCODER] = dropped(b, "x", x);
    tokens = data_of(b, DATA_DECODER, "decoder", l->decoder);
    int y = build_step(b, &op_embedding, "dec", (struct inputs){tokens, NONE, wte, NONE});
    b->p->blocks[0].out[DECODER] = dropped(b, "y", y);
    return wte;
}

static void head(struct builder *b, const struct t5_lengths *l, int wte) {
    int y = b->p->blocks[b->p->n_blocks - 1].out[DECODER];
    int block = program_add_block(b->p, "head", NONE, false);
    b->p->blocks[block].in[DECODER] = y;
    y = dropped(b, "out", norm(b, "ln", "ln.g", y));
    if (model_options(b->plan)->tie) {
        y = build_step(b, &op_scale, "scaled", (struct inputs){y, NONE, NONE, NONE});
        last_step(b)->scale.by = std_of(b->plan->hidden);
    }
    build_head(b, y, model_options(b->plan)->tie ? wte : build_matrix(b, "w", "VC", 1), NONE);
    b->p->slots[b->p->data[DATA_TARGETS]].type.shape.axis[1] = axis_whole('T', l->decoder);
}

static enum status refuse(const char *option, int64_t value, const char *why) {
    return FAIL(E_CONFIG, "%s=%" PRId64 ": %s", option, value, why);
}

static enum status check(const struct plan *p) {
    const struct model_options *m = model_options(p);
    if (p->layers % 2)
        return FAIL(E_CONFIG, "layers=%" PRId64 ": half of t5's layers encode, as many decode; use layers %" PRId64,
                    p->layers, p->layers + 1);
    if (plan_kv_heads(p) != p->heads)
        return refuse("kv-heads", m->kv_heads, "every head of t5 has keys of its own; use arch llama, or leave it out");
    if (m->experts)
        return refuse("experts", m->experts, "t5 has one MLP a layer; use arch gpt, or leave it out");
    if (p->mesh.cp > 1)
        return refuse("cp", p->mesh.cp, "t5 has two sequences, and cp shards one; use cp 1, and tp with sp");
    if (p->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "sums=fixed has no order for t5's bias by distance; use sums=fast");
    return p->seq < 2 ? refuse("seq", p->seq, "t5 takes a part of a text out and keeps a part; use 2 or more") : OK;
}

enum status t5_build(const struct plan *plan, struct program *p) {
    struct builder b = {.plan = plan, .p = p};
    TRY(check(plan));
    TRY(activation_choose(model_options(plan)->activation, ACTIVATION_RELU, ACTIVATIONS_ALL, "t5", &b.act));
    const struct t5_lengths l = t5_lengths(plan);
    int64_t n = plan->layers / 2;
    int wte = embedding(&b, &l), bias;
    for (int64_t i = 0; i < n; i++) encoder_layer(&b, i, n, &bias);
    for (int64_t i = 0; i < n; i++) decoder_layer(&b, i, &bias);
    head(&b, &l, wte);
    return OK;
}

/* ---- counting ---- */
static int64_t mlp_matrices(const struct plan *c) {
    return (activation_is_gated((enum activation)model_options(c)->activation) ? 3 : 2) * c->hidden * plan_ffn(c);
}
static int64_t attention_matrix(const struct plan *c) { return c->hidden * c->heads * plan_head_dim(c); }   /* q's */

int64_t t5_matmul_params(const struct plan *c) {
    return c->layers / 2 * (12 * attention_matrix(c) + 2 * mlp_matrices(c)) + c->vocab * c->hidden;
}

int64_t t5_n_params(const struct plan *c) {
    int64_t C = c->hidden, norms = c->layers / 2 * 5 * C + 2 * C;
    return t5_matmul_params(c) + (model_options(c)->tie ? 0 : c->vocab * C) + norms + 2 * ATTENTION_BUCKETS * c->heads;
}

double t5_flops_per_token(const struct plan *c) {
    const struct t5_lengths l = t5_lengths(c);
    double A = (double)attention_matrix(c), n = (double)c->layers / 2, mlp = (double)mlp_matrices(c);
    double e = (double)l.encoder, d = (double)l.decoder, width = A / (double)c->hidden;
    double of_encoder = n * e * (4 * A + mlp), of_keys = n * e * 2 * A;             /* the decoder's keys and values */
    double products = of_encoder + of_keys + n * d * (6 * A + mlp) + d * (double)(c->vocab * c->hidden);
    return (6 * products + 12 * n * width * (e * e + d * d + d * e)) / (double)c->seq;
}

static const struct option OPTIONS[] = {
    {"noise", OPTION_REAL, "0.15", 0.001, 0.999, NULL, "",
     "t5: the part of a text that is taken out, for the decoder to write", "model", offsetof(struct t5_options, noise)},
    {"span", OPTION_REAL, "3", 1, 1e6, NULL, "tokens", "t5: the mean length of what is taken out in one piece", "model",
     offsetof(struct t5_options, span)},
    {"sentinels", OPTION_INT, "-1", -1, 2e9, NULL, "",
     "t5: the token that stands in place of the first span; those below it stand for the next ones. -1: 32099 where "
     "vocab is 32128, as published, else the vocabulary's last", "model", offsetof(struct t5_options, sentinels)},
};

const struct model model_t5 = {
    .name = "t5", .presets = {t5_presets}, .formats = t5_formats, .published = t5_published,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct t5_options)}, .build = t5_build,
    .any_seq = true, .sample = t5_sample, .own_tokens = t5_own_tokens, .n_targets = t5_n_targets,
    .n_params = t5_n_params, .flops_per_token = t5_flops_per_token};
