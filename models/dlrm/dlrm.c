/* The two models as lists of steps; dlrm.h has the formulas. */
#include "models/dlrm/dlrm.h"

#include "lib/ops/linear.h"
#include "lib/ops/rec/binary_cross_entropy.h"
#include "lib/ops/rec/embedding_bag.h"
#include "lib/ops/rec/interaction.h"
#include "lib/ops/activation.h"
#include "lib/run/build.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const struct option OPTIONS[] = {
    {"features", OPTION_INT, "0", 0, 1e5, NULL, "", "dlrm, wide-deep: features with ids; 0: the data's", "model",
     offsetof(struct dlrm_options, features)},
    {"bag", OPTION_INT, "0", 0, 1e5, NULL, "ids", "dlrm, wide-deep: ids of a feature at most; 0: the data's", "model",
     offsetof(struct dlrm_options, bag)},
    {"dense", OPTION_INT, "0", 0, 1e5, NULL, "", "dlrm, wide-deep: dense features; 0: the data's", "model",
     offsetof(struct dlrm_options, dense)},
    {"mlp-bottom", OPTION_TEXT, "", 0, 0, NULL, "", "dlrm: widths of the hidden layers before the interaction: 512-256",
     "model", offsetof(struct dlrm_options, bottom)},
    {"mlp-top", OPTION_TEXT, "", 0, 0, NULL, "", "dlrm, wide-deep: and of those after it", "model",
     offsetof(struct dlrm_options, top)},
    {"emb-lr", OPTION_REAL, "0.05", 0, 1e6, NULL, "",
     "dlrm, wide-deep: learning rate of the tables' rows (rowwise Adagrad), scaled as lr is over the steps", "training",
     offsetof(struct dlrm_options, emb_lr)},
};

/* ---- sizes ---- */
struct mlp { int n; int64_t width[DLRM_MAX_LAYERS]; };   /* width of each layer's output */

static enum status widths(const char *name, const char *text, int64_t last, struct mlp *m) {
    char *end = (char *)text;
    m->n = 0;
    for (const char *at = text; *at; at = end + (*end == '-')) {
        int64_t width = strtoll(at, &end, 10);
        if (end == at || width < 1 || width > 1000000 || (*end && *end != '-') || m->n == DLRM_MAX_LAYERS - 1)
            return FAIL(E_CONFIG, "%s=%.64s: up to %d widths from 1 to 1000000, with a - between, as in 512-256", name,
                        text, DLRM_MAX_LAYERS - 1);
        m->width[m->n++] = width;
    }
    m->width[m->n++] = last;
    return OK;
}

static bool is_wide(const struct plan *p) { return p->arch == &model_wide_deep; }

/* Number of inputs of the top MLP. */
static int64_t interacted(const struct plan *p) {
    const struct dlrm_options *o = dlrm_options(p);
    int64_t F = o->features;
    return is_wide(p) ? o->dense + F * p->hidden : p->hidden + (F + 1) * F / 2;
}

static int64_t mlp_numbers(const struct mlp *m, int64_t from, bool biases) {
    int64_t n = 0;
    for (int i = 0; i < m->n; from = m->width[i++]) n += m->width[i] * (from + biases);
    return n;
}

static int64_t numbers(const struct plan *p, bool biases) {
    const struct dlrm_options *o = dlrm_options(p);
    struct mlp bottom = {.n = 0}, top = {.n = 0};
    if (!is_wide(p) && widths("mlp-bottom", o->bottom, p->hidden, &bottom) != OK) status_clear();
    if (widths("mlp-top", o->top, 1, &top) != OK) status_clear();   /* dlrm's build refuses it */
    return mlp_numbers(&bottom, o->dense, biases) + mlp_numbers(&top, interacted(p), biases);
}

int64_t dlrm_matrix_params(const struct plan *p) { return numbers(p, false); }

static int64_t dlrm_n_params(const struct plan *p) {
    return numbers(p, true) + dlrm_options(p)->features * p->vocab * (p->hidden + is_wide(p));
}

static double dlrm_flops(const struct plan *p) {
    double n = (double)dlrm_options(p)->features + 1;
    return 6.0 * (double)numbers(p, false) + (is_wide(p) ? 0 : 6 * n * n * (double)p->hidden);
}

/* ---- the list ---- */
static struct axis replicas(const struct plan *p) {
    struct axis all = axis_whole('P', p->mesh.dp), own = axis_part(&all, p->mesh.dp, p->place.rank.dp);
    own.cut = 1u << AXIS_DP;
    return own;
}
static struct type type_of(enum dtype dtype, int n, const struct axis *axes) {
    struct type t = {.dtype = dtype, .shape.n_axes = n};
    for (int i = 0; i < n; i++) t.shape.axis[i] = axes[i];
    return t;
}

static int data_slot(struct builder *b, const char *name, struct type type) {
    int slot = program_add_slot(b->p, "data", name);
    b->p->slots[slot].type = type;
    return slot;
}

static void add_data(struct builder *b) {
    const struct plan *p = b->plan;
    const struct dlrm_options *o = dlrm_options(p);
    struct axis P = replicas(p), B = axis_whole('B', p->micro_batch);
    b->p->features = data_slot(b, "dense", type_of(plan_dtype(p), 3, (struct axis[]){P, B, axis_whole('X', o->dense)}));
    b->p->data[DATA_TOKENS] = data_slot(b, "ids", type_of(INT32, 4, (struct axis[]){P, axis_whole('F', o->features), B,
                                                                          axis_whole('M', o->bag)}));
    b->p->data[DATA_TARGETS] = data_slot(b, "labels", type_of(INT32, 2, (struct axis[]){P, B}));
}

static const char *block_name(const struct builder *b) { return b->p->blocks[b->p->n_blocks - 1].name; }

static int linear(struct builder *b, int i, int x, struct axis from, struct axis to) {
    enum dtype dtype = plan_dtype(b->plan);
    char w[16], bias[16], y[16];
    snprintf(w, sizeof w, "%d.w", i), snprintf(bias, sizeof bias, "%d.b", i), snprintf(y, sizeof y, "%d", i);
    double std = sqrt(2.0 / (double)(from.n + to.n));                /* as in the paper's code */
    int weight = program_add_param(b->p, block_name(b), w, type_of(dtype, 2, (struct axis[]){to, from}), std, 0, true);
    int zero = program_add_param(b->p, block_name(b), bias, type_of(dtype, 1, &to), 0, 0, false);
    return build_step(b, &op_linear, y, (struct inputs){x, NONE, weight, zero});
}

/* x (P,B,from) -> (P,B,last width), whose axis has the letter `last`. relu_last: the last layer has a relu, too. */
static int mlp(struct builder *b, const char *block, const struct mlp *m, int x, struct axis from, char last,
               bool relu_last) {
    program_add_block(b->p, block, NONE, false);
    for (int i = 0; i < m->n; i++) {
        struct axis to = axis_whole(i == m->n - 1 ? last : i % 2 ? 'C' : 'K', m->width[i]);
        char relu[16];
        snprintf(relu, sizeof relu, "%d.relu", i);
        x = linear(b, i, x, from, to);
        if (i < m->n - 1 || relu_last) x = build_step(b, &op_relu, relu, (struct inputs){x, NONE, NONE, NONE});
        from = to;
    }
    return x;
}

/* Tables of rows of D numbers, and Adagrad's state: one number per row. */
static int bags(struct builder *b, const char *name, int64_t D) {
    const struct plan *p = b->plan;
    enum dtype dtype = plan_dtype(p);
    struct axis axes[] = {axis_whole('F', dlrm_options(p)->features), axis_whole('V', p->vocab), axis_whole('D', D)};
    program_add_block(b->p, name, NONE, false);
    double std = 1 / sqrt(3.0 * (double)p->vocab), lr = dlrm_options(p)->emb_lr;
    int table = program_add_param(b->p, name, "tables", type_of(dtype, 3, axes), std, 0, false);
    int kept = program_add_param(b->p, name, "adagrad", type_of(dtype, 2, axes), 0, 0, false);
    b->p->params[table].update = UPDATE_ROWS;
    b->p->params[table].lr_scale = p->lr > 0 ? lr / p->lr : 0;
    b->p->params[kept].update = UPDATE_STATE;
    return build_step(b, &op_embedding_bag, "pooled", (struct inputs){b->p->data[DATA_TOKENS], NONE, table, kept});
}

static void add_loss(struct builder *b, int logits) {
    b->p->scores = logits;
    int labels = b->p->data[DATA_TARGETS];
    b->p->loss = build_step(b, &op_binary_cross_entropy, "loss", (struct inputs){logits, labels, NONE, NONE});
}

/* Sizes and layers of transformers: the presets have 1 of each size. */
static enum status refuse_transformers(const struct plan *p) {
    const struct model_options *m = model_options(p);
    const struct { const char *name; bool given; } no[] = {
        {"layers", p->layers != 1}, {"heads", p->heads != 1}, {"seq", p->seq != 1}, {"kv-heads", m->kv_heads > 1},
        {"head-dim", m->head_dim}, {"ffn", m->ffn}, {"norm-eps", m->norm_eps > 0}, {"dropout", m->dropout > 0},
        {"tie", !m->tie}, {"attention", m->attention}};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (no[i].given)
            return FAIL(E_CONFIG, "%s: arch=%s has tables and MLPs, and no part that reads it; leave %s out",
                        no[i].name, p->arch->name, no[i].name);
    return OK;
}

static enum status check(const struct plan *p) {
    const struct dlrm_options *o = dlrm_options(p);
    enum activation act;
    TRY(refuse_transformers(p));
    TRY(activation_choose(model_options(p)->activation, ACTIVATION_RELU, 1 << ACTIVATION_RELU, p->arch->name, &act));
    if (!o->features || !o->bag || !o->dense)
        return FAIL(E_CONFIG, "arch=%s: features=%" PRId64 ", bag=%" PRId64 ", dense=%" PRId64 ", and each must be at "
                    "least 1; give --data a file of clicks (trivium data synth-clicks), or all three", p->arch->name,
                    o->features, o->bag, o->dense);
    if (plan_optimizer(p) != &optimizer_adamw)
        return FAIL(E_CONFIG, "optimizer=%s: the tables of arch=%s are learned by rowwise Adagrad, which reads adamw's "
                    "eps; use optimizer adamw", plan_optimizer(p)->name, p->arch->name);
    double rows = (double)o->features * (double)p->vocab, numbers = (double)o->features * (double)o->bag;
    if (rows * (double)p->hidden > 1e15 || rows > 4e9 || numbers * (double)p->global_batch > 4e9)
        return FAIL(E_CONFIG, "arch=%s: %.3g rows of tables and %.3g ids a step; at most 4e9 of either can be counted",
                    p->arch->name, rows, numbers * (double)p->global_batch);
    return OK;
}

static enum status dlrm_build(const struct plan *plan, struct program *p) {
    const struct dlrm_options *o = dlrm_options(plan);
    struct builder b = {.plan = plan, .p = p};
    struct mlp bottom, top;
    TRY(check(plan));
    TRY(widths("mlp-bottom", o->bottom, plan->hidden, &bottom));
    TRY(widths("mlp-top", o->top, 1, &top));
    add_data(&b);
    int x = mlp(&b, "bottom", &bottom, p->features, axis_whole('X', o->dense), 'D', true);
    int pooled = bags(&b, "emb", plan->hidden);
    int y = build_step(&b, &op_interaction_dots, "dots", (struct inputs){x, pooled, NONE, NONE});
    add_loss(&b, mlp(&b, "top", &top, y, axis_whole('I', interacted(plan)), '1', false));
    return OK;
}

static enum status wide_deep_build(const struct plan *plan, struct program *p) {
    const struct dlrm_options *o = dlrm_options(plan);
    struct builder b = {.plan = plan, .p = p};
    struct mlp top;
    TRY(check(plan));
    TRY(widths("mlp-top", o->top, 1, &top));
    if (o->bottom[0])
        return FAIL(E_CONFIG, "mlp-bottom=%.64s: wide-deep has no MLP before its tables; use mlp-top, or arch dlrm",
                    o->bottom);
    add_data(&b);
    int wide = bags(&b, "wide", 1), pooled = bags(&b, "emb", plan->hidden);
    int y = build_step(&b, &op_interaction_concat, "concat", (struct inputs){p->features, pooled, NONE, NONE});
    y = mlp(&b, "top", &top, y, axis_whole('I', interacted(plan)), '1', false);
    add_loss(&b, build_step(&b, &op_interaction_sum, "logit", (struct inputs){y, wide, NONE, NONE}));
    return OK;
}

#define SIZES "layers=1 heads=1 seq=1 lr=1e-3 "
static const struct model_preset DLRM[] = {
    {"tiny", SIZES "hidden=16 mlp-bottom=64-32 mlp-top=64-32"},
    {"dlrm-criteo", SIZES "hidden=128 mlp-bottom=512-256 mlp-top=1024-1024-512-256"},
    {NULL, NULL},
};
static const struct model_preset WIDE_DEEP[] = {
    {"tiny", SIZES "hidden=16 mlp-top=64-32"},
    {"wide-deep", SIZES "hidden=32 mlp-top=1024-512-256"},
    {NULL, NULL},
};

const struct model model_dlrm = {
    .name = "dlrm", .presets = {DLRM}, .any_seq = true, .clicks = &dlrm_clicks,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct dlrm_options)}, .build = dlrm_build,
    .n_params = dlrm_n_params, .flops_per_token = dlrm_flops};
const struct model model_wide_deep = {
    .name = "wide-deep", .presets = {WIDE_DEEP}, .any_seq = true, .clicks = &dlrm_clicks, .build = wide_deep_build,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, 0},     /* the values are in DLRM's struct */
    .n_params = dlrm_n_params, .flops_per_token = dlrm_flops};
