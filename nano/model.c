/* GPT-2: the weights of a rank, and the forward and backward of a microbatch.
 *
 *   x = wte[token] + wpe[position]                                   the first stage
 *   x = x + proj(attention(qkv(layernorm(x))))                       each layer
 *   x = x + fc2(gelu(fc(layernorm(x))))
 *   loss = cross_entropy(layernorm(x) wte^T)                         the last stage; wte is the same weight
 *
 * Tensor parallelism cuts a layer by heads and by the hidden channels of the MLP (Megatron-LM, Shoeybi and others 2019,
 * section 3):
 *
 *   Rank i has qkv and fc for its heads and channels, and the parts of proj and fc2 that read them. No operation in
 *   between mixes heads or channels, so each half of a layer ends in partial sums: one tp_sum in forward. In backward
 *   each rank has a part of the gradient of the half's input: again one tp_sum. Layernorms, biases after the sum,
 *   embedding and head are whole on every rank.
 *
 * Pipeline parallelism gives each stage L/p neighboring layers. wte is on the first and on the last stage.
 * With --recompute a layer keeps only its input; backward recomputes the rest, for one layer at a time. */
#include "nano.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_first(void) { return grid.p_i == 0; }
static int is_last(void) { return grid.p_i == grid.p - 1; }
static int before(void) { return is_first() ? 2 : 0; }     /* the first layer's weights; wte and wpe come before them */

static void *room(int64_t n, size_t size) {
    void *x = calloc((size_t)n, size);
    if (!x) fail("no memory for %lld numbers", (long long)n);
    return x;
}
static real *reals(int64_t n) { return room(n, sizeof(real)); }

/* ---- weights ---- */

/* is_cut: tensor parallelism cuts the weight. A matrix is drawn with std and decays; a vector begins as a constant. */
static void add(struct model *m, const char *name, int64_t outer, int64_t cut, int64_t inner, int is_cut, double std,
                double constant) {
    struct weight *w = &m->weights[m->n_weights++];
    *w = (struct weight){.outer = outer, .cut = cut, .inner = inner, .at = m->n, .parts = is_cut ? grid.t : 1,
                         .decay = std > 0, .std = std, .constant = constant};
    snprintf(w->name, sizeof w->name, "%s", name);
    w->n = outer * (cut / w->parts) * inner;
    w->counted = is_cut || grid.t_i == 0;            /* the norm counts each number of the model once */
    m->n += w->n;
}

static void add_layer(struct model *m, int layer) {
    int64_t C = m->C, H = m->plan->heads, D = m->D, K = 4 * C;
    double std = 0.02 / sqrt(2.0 * m->plan->layers);
    char name[24];
#define ADD(what, ...) (snprintf(name, sizeof name, "h%d.%s", layer, what), add(m, name, __VA_ARGS__))
    ADD("ln1.g", 1, 1, C, 0, 0, 1);
    ADD("ln1.b", 1, 1, C, 0, 0, 0);
    ADD("qkv.w", 3, H, D * C, 1, 0.02, 0);
    ADD("qkv.b", 3, H, D, 1, 0, 0);
    ADD("proj.w", C, H, D, 1, std, 0);
    ADD("proj.b", 1, 1, C, 0, 0, 0);
    ADD("ln2.g", 1, 1, C, 0, 0, 1);
    ADD("ln2.b", 1, 1, C, 0, 0, 0);
    ADD("fc.w", 1, K, C, 1, 0.02, 0);
    ADD("fc.b", 1, K, 1, 1, 0, 0);
    ADD("fc2.w", C, K, 1, 1, std, 0);
    ADD("fc2.b", 1, 1, C, 0, 0, 0);
#undef ADD
}

/* The index in the whole weight of element i of this rank's part. */
static int64_t place(const struct weight *w, int64_t i) {
    int64_t own = w->cut / w->parts, first = w->parts > 1 ? own * grid.t_i : 0;
    return (i / (own * w->inner) * w->cut + first + i / w->inner % own) * w->inner + i % w->inner;
}

static void draw(struct model *m, const struct weight *w) {
    for (int64_t i = 0; i < w->n; i++) {
        double normal = w->std > 0 ? random_normal((uint64_t)m->plan->seed, w->name, place(w, i)) : 0;
        m->w[w->at + i] = (real)(w->constant + w->std * normal);
    }
}

void model_init(struct model *m, const struct plan *plan) {
    int L = plan->layers, C = plan->hidden;
    if (plan->hidden % plan->heads) fail("heads=%d does not divide hidden=%d", plan->heads, C);
    if (plan->heads % grid.t) fail("tp=%d does not divide heads=%d", grid.t, plan->heads);
    if (L % grid.p) fail("pp=%d does not divide layers=%d", grid.p, L);
    *m = (struct model){.plan = plan, .B = plan->micro_batch, .T = plan->seq, .C = C, .H = plan->heads / grid.t,
                        .D = C / plan->heads, .K = 4 * C / grid.t, .V = plan->vocab, .n_layers = L / grid.p,
                        .first_layer = L / grid.p * grid.p_i};
    m->weights = room(m->n_layers * PER_LAYER + 5, sizeof *m->weights);
    if (is_first()) {
        add(m, "embed.wte", 1, 1, (int64_t)m->V * C, 0, 0.02, 0);
        add(m, "embed.wpe", 1, 1, (int64_t)m->T * C, 0, 0.02, 0);
    }
    for (int l = 0; l < m->n_layers; l++) add_layer(m, m->first_layer + l);
    if (is_last()) {
        add(m, "head.lnf.g", 1, 1, C, 0, 0, 1);
        add(m, "head.lnf.b", 1, 1, C, 0, 0, 0);
        if (!is_first()) {
            add(m, "embed.wte", 1, 1, (int64_t)m->V * C, 0, 0.02, 0);
            m->weights[m->n_weights - 1].counted = 0;                    /* the first stage counts it */
        }
    }
    m->shard = (m->n + grid.d - 1) / grid.d;
    m->w = reals(m->shard * grid.d);
    m->dw = reals(m->shard * grid.d);
    for (int i = 0; i < m->n_weights; i++) draw(m, &m->weights[i]);
}

static struct weight *wte(const struct model *m) { return is_first() ? &m->weights[0] : &m->weights[m->n_weights - 1]; }
void model_tie(struct model *m) { if (is_first() || is_last()) tie_sum(m->dw + wte(m)->at, wte(m)->n); }

/* ---- activations kept for backward ---- */

struct kept {
    real **x;                            /* x[l]: input of layer l; x[n_layers]: the stage's output */
    struct layer *layers;
    real *lnf, *logits;
};

static struct layer layer_new(const struct model *m) {
    int64_t R = (int64_t)m->B * m->T, RC = R * m->C, heads = R * m->H * m->D;
    return (struct layer){reals(RC), reals(3 * heads), reals(R * m->H * m->T), reals(heads),
                          reals(RC), reals(RC),        reals(R * m->K),        reals(R * m->K)};
}

struct kept *kept_new(const struct model *m) {
    static struct layer shared;                      /* with --recompute: shared by all microbatches */
    int64_t R = (int64_t)m->B * m->T;
    struct kept *k = room(1, sizeof *k);
    k->x = room(m->n_layers + 1, sizeof *k->x);
    k->layers = room(m->n_layers, sizeof *k->layers);
    if (m->plan->recompute && !shared.ln1) shared = layer_new(m);
    for (int l = 0; l <= m->n_layers; l++) k->x[l] = reals(R * m->C);
    for (int l = 0; l < m->n_layers; l++) k->layers[l] = m->plan->recompute ? shared : layer_new(m);
    if (is_last()) k->lnf = reals(R * m->C), k->logits = reals(R * m->V);
    return k;
}

static void add_to(real *y, const real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

/* ---- a layer ---- */

/* The weights of the stage's layer l, and their gradients. */
static void weights_of(const struct model *m, int l, const real **w, real **dw) {
    for (int i = 0; i < PER_LAYER; i++) {
        int64_t at = m->weights[before() + l * PER_LAYER + i].at;
        w[i] = m->w + at, dw[i] = m->dw + at;
    }
}

#ifndef MY_LAYER
/* y holds this rank's part of a half's output. Sum the parts of all tensor parallel ranks; add bias and x once. */
static void add_half(real *y, const real *x, const real *bias, int R, int C) {
    tp_sum(y, (int64_t)R * C);
    for (int i = 0; i < R * C; i++) y[i] += x[i] + bias[i % C];
}

void layer_forward(const struct model *m, const real *const *w, const real *x, const struct layer *k, real *y) {
    int R = m->B * m->T, C = m->C, HD = m->H * m->D;
    layernorm(k->ln1, x, w[LN1_G], w[LN1_B], R, C);
    linear(k->qkv, k->ln1, w[QKV_W], w[QKV_B], R, C, 3 * HD);
    attention(k->att, k->prob, k->qkv, m->B, m->T, m->H, m->D);
    linear(k->mid, k->att, w[PROJ_W], NULL, R, HD, C);
    add_half(k->mid, x, w[PROJ_B], R, C);
    layernorm(k->ln2, k->mid, w[LN2_G], w[LN2_B], R, C);
    linear(k->fc, k->ln2, w[FC_W], w[FC_B], R, C, m->K);
    gelu(k->gelu, k->fc, (int64_t)R * m->K);
    linear(y, k->gelu, w[FC2_W], NULL, R, m->K, C);
    add_half(y, k->mid, w[FC2_B], R, C);
}

static void add_rows(real *db, const real *dy, int R, int C) {
    for (int i = 0; i < R * C; i++) db[i % C] += dy[i];
}

/* d: on entry the gradient of the layer's output, on return that of its input. */
void layer_backward(const struct model *m, const real *const *w, real *const *dw, const real *x, const struct layer *k,
                    real *d) {
    int R = m->B * m->T, C = m->C, HD = m->H * m->D;
    real *wide = reals((int64_t)R * m->K), *dqkv = reals((int64_t)R * 3 * HD);
    real *datt = reals((int64_t)R * HD), *dx = reals((int64_t)R * C);
    add_rows(dw[FC2_B], d, R, C);
    linear_backward(wide, dw[FC2_W], NULL, d, k->gelu, w[FC2_W], R, m->K, C);
    gelu_backward(wide, wide, k->fc, (int64_t)R * m->K);
    linear_backward(dx, dw[FC_W], dw[FC_B], wide, k->ln2, w[FC_W], R, C, m->K);
    tp_sum(dx, (int64_t)R * C);
    layernorm_backward(dx, dw[LN2_G], dw[LN2_B], dx, k->mid, w[LN2_G], R, C);
    add_to(d, dx, (int64_t)R * C);                   /* d = the residual's gradient + the MLP's */
    add_rows(dw[PROJ_B], d, R, C);
    linear_backward(datt, dw[PROJ_W], NULL, d, k->att, w[PROJ_W], R, HD, C);
    attention_backward(dqkv, datt, k->prob, k->qkv, m->B, m->T, m->H, m->D);
    linear_backward(dx, dw[QKV_W], dw[QKV_B], dqkv, k->ln1, w[QKV_W], R, C, 3 * HD);
    tp_sum(dx, (int64_t)R * C);
    layernorm_backward(dx, dw[LN1_G], dw[LN1_B], dx, x, w[LN1_G], R, C);
    add_to(d, dx, (int64_t)R * C);
    free(wide), free(dqkv), free(datt), free(dx);
}
#endif

/* ---- forward ---- */

static void embed(const struct model *m, const int *tokens, real *x) {
    const real *wte = m->w + m->weights[0].at, *wpe = m->w + m->weights[1].at;
    for (int r = 0; r < m->B * m->T; r++)
        for (int c = 0; c < m->C; c++) x[r * m->C + c] = wte[(int64_t)tokens[r] * m->C + c] + wpe[r % m->T * m->C + c];
}

double model_forward(struct model *m, struct kept *k, const int *tokens, const int *targets) {
    const real *w[PER_LAYER];
    real *dw[PER_LAYER];
    int R = m->B * m->T, n = m->n_layers;
    if (is_first())
        embed(m, tokens, k->x[0]);
    else
        stage_receive(UP, k->x[0], (int64_t)R * m->C);
    for (int l = 0; l < n; l++) {
        weights_of(m, l, w, dw);
        layer_forward(m, w, k->x[l], &k->layers[l], k->x[l + 1]);
    }
    if (!is_last()) {
        stage_send(UP, k->x[n], (int64_t)R * m->C);
        return 0;
    }
    const struct weight *lnf = &m->weights[before() + n * PER_LAYER];
    layernorm(k->lnf, k->x[n], m->w + lnf[0].at, m->w + lnf[1].at, R, m->C);
    linear(k->logits, k->lnf, m->w + wte(m)->at, NULL, R, m->C, m->V);
    return cross_entropy(k->logits, targets, R, m->V, 1.0 / ((double)m->plan->global_batch * m->T));
}

/* ---- backward ---- */

static void embed_backward(const struct model *m, const int *tokens, const real *d) {
    real *dwte = m->dw + m->weights[0].at, *dwpe = m->dw + m->weights[1].at;
    for (int r = 0; r < m->B * m->T; r++) {
        add_to(dwte + (int64_t)tokens[r] * m->C, d + r * m->C, m->C);
        add_to(dwpe + r % m->T * m->C, d + r * m->C, m->C);
    }
}

void model_backward(struct model *m, struct kept *k, const int *tokens) {
    const real *w[PER_LAYER];
    int R = m->B * m->T, n = m->n_layers;
    real *dw[PER_LAYER], *d = reals((int64_t)R * m->C);
    if (is_last()) {
        const struct weight *lnf = &m->weights[before() + n * PER_LAYER], *head = wte(m);
        linear_backward(d, m->dw + head->at, NULL, k->logits, k->lnf, m->w + head->at, R, m->C, m->V);
        layernorm_backward(d, m->dw + lnf[0].at, m->dw + lnf[1].at, d, k->x[n], m->w + lnf[0].at, R, m->C);
    } else
        stage_receive(DOWN, d, (int64_t)R * m->C);
    for (int l = n - 1; l >= 0; l--) {
        weights_of(m, l, w, dw);
        real *again = m->plan->recompute ? reals((int64_t)R * m->C) : NULL;
        if (again) layer_forward(m, w, k->x[l], &k->layers[l], again);
        free(again);
        layer_backward(m, w, dw, k->x[l], &k->layers[l], d);
    }
    if (is_first())
        embed_backward(m, tokens, d);
    else
        stage_send(DOWN, d, (int64_t)R * m->C);
    free(d);
}
