/* Attention as its formulas stand. Forward saves the probabilities p (B,H,T,T) for backward, and their dropout, if the
 * step stores it. See attention.h. One head of one sample at a time; threads divide the heads. */
#include "lib/ops/attention/attention_cpu.h"

kernel CPU(attention_materialised_forward), CPU(attention_materialised_backward_input);

/* The pair of the queries with all keys, and the saved tensors, (B,H,T,Tk) each. mask and dropped are NULL where
 * dropout is drawn again. */
struct materialised { struct attention_pair pair; elem *p; uint8_t *mask; elem *dropped; };

static struct materialised materialised_of(const struct call *call) {
    struct materialised m = {.pair = attention_pair_of(call), .p = call->out[1].data};
    m.pair.lse = NULL;
    m.mask = m.pair.dropout.mask;
    if (m.mask) m.dropped = call->out[3].data;
    return m;
}

/* The saved tensors of one head, (T,Tk) each. */
struct saved { elem *p; uint8_t *mask; elem *dropped; };

static struct saved saved_of(const struct pair_head *x) {
    const struct materialised *m = (const struct materialised *)x->pair;   /* the pair lies first in it */
    int64_t at = (x->b * m->pair.H + x->h) * m->pair.Tq * m->pair.Tk;
    return m->mask ? (struct saved){m->p + at, m->mask + at, m->dropped + at} : (struct saved){m->p + at, NULL, NULL};
}

/* The keys that query t sees: from `from` to before `to`. */
struct seen { int64_t from, to; };
static struct seen seen_by(const struct pair_head *x, int64_t t) {
    return (struct seen){attention_first_key(x->pair, t), attention_end_of_keys(x->pair, t)};
}

static real dot(const elem *a, const elem *b, int64_t n) { return SUM_OVER(i, n, load(a[i]) * load(b[i])); }

/* s[i] = q . k / sqrt(D), capped, for n keys from key `from` on */
static void scores(const struct pair_head *x, int64_t t, real *s, int64_t from, int64_t n) {
    const elem *q = x->q + t * x->pair->q.row;
    real scale = (real)x->pair->scale;
    for (int64_t j = 0; j < n; j++) s[j] = scale * dot(q, x->k + (from + j) * x->pair->k.row, x->pair->D);
    cap_scores(x->pair, s, n);
}

/* One row of the softmax: p[i] = e^(s - max) / sum for the n keys that query t sees, from key `from` on. */
static void probabilities(const struct pair_head *x, int64_t t, real *p, int64_t from, int64_t n) {
    scores(x, t, p, from, n);
    add_bias(x, p, t, 1, from, n);
    real max = MAX_OVER(j, n, p[j]);
    for (int64_t j = 0; j < n; j++) p[j] = real_exp(p[j] - max);
    real sum = SUM_OVER(j, n, p[j]);
    for (int64_t j = 0; j < n; j++) p[j] /= sum;
}

static void draw(const struct pair_head *x, real *m, int64_t t, int64_t n) {
    if (x->pair->dropout.on)
        pair_factors(x, m, t, 0, n);
    else
        for (int64_t j = 0; j < n; j++) m[j] = 1;
}

/* m p from the p that was saved, and rounded, so that a recomputed m p equals a stored one. */
static elem dropped_of(real m, elem p) { return store(m * load(p)); }

/* Save row t. All Tk columns are written, as the plan counts them. */
static void save_row(const struct saved *saved, const real *p, const real *m, int64_t t, struct seen seen,
                     int64_t Tk) {
    int64_t at = t * Tk;
    for (int64_t j = 0; j < Tk; j++) saved->p[at + j] = store(j >= seen.from && j < seen.to ? p[j] : 0);
    if (!saved->mask) return;
    mask_store(saved->mask + at, m, Tk);
    for (int64_t j = 0; j < Tk; j++) saved->dropped[at + j] = dropped_of(m[j], saved->p[at + j]);
}

/* Scratch: a row of the mask, a row of p. */
static void forward_head(const struct pair_head *x, struct scratch scratch) {
    int64_t Tk = x->pair->Tk, D = x->pair->D, row = x->pair->v.row;
    real *m = take(&scratch, Tk), *p = take(&scratch, Tk);
    struct saved saved = saved_of(x);
    for (int64_t t = 0; t < x->pair->Tq; t++) {
        const struct seen seen = seen_by(x, t);
        int64_t first = seen.from, n = seen.to - first;
        const elem *v = x->v + first * row;
        real *seen_p = p + first;
        probabilities(x, t, seen_p, first, n);
        draw(x, m, t, Tk);
        save_row(&saved, p, m, t, seen, Tk);
        for (int64_t j = 0; j < n; j++) seen_p[j] *= m[first + j];
        for (int64_t i = 0; i < D; i++)
            x->y[t * x->pair->y.row + i] = store(SUM_OVER(j, n, seen_p[j] * load(v[j * row + i])));
    }
}

enum status CPU(attention_materialised_forward)(const struct call *call) {
    struct materialised m = materialised_of(call);
    spread_bias(&m.pair);
    each_head(&m.pair, attention_materialised_reals(call, ROW_FORWARD), forward_head);
    return OK;
}

/* ---- backward ---- */

struct backward { real *dp, *m, *dk, *dv, *dq; };   /* dp, m: (Tk); dk, dv: (Tk,D), summed over heads; dq: (D) */

/* m of query t, as forward drew it. */
static void factors(const struct pair_head *x, const struct saved *saved, real *m, int64_t t) {
    if (x->pair->dropout.on && saved->mask)
        mask_load(&x->pair->dropout, saved->mask + t * x->pair->Tk, m, seen_by(x, t).to);
    else
        draw(x, m, t, seen_by(x, t).to);
}

/* For query t, m becomes m p. */
static void dropped_row(const struct pair_head *x, const struct saved *saved, real *m, int64_t t) {
    int64_t at = t * x->pair->Tk, n = seen_by(x, t).to;
    for (int64_t j = 0; j < n; j++)
        m[j] = load(saved->dropped ? saved->dropped[at + j] : dropped_of(m[j], saved->p[at + j]));
}

/* For query t: ds times the slopes of the cap at the scores, which are computed again, a few at a time. */
static void through_cap(const struct pair_head *x, int64_t t, struct seen seen, real *ds) {
    real s[COLUMNS];
    for (int64_t j = seen.from, n; x->pair->view.cap > 0 && j < seen.to; j += n) {
        n = min64(COLUMNS, seen.to - j);
        scores(x, t, s, j, n);
        cap_gradient(x->pair, ds + j, s, n);
    }
}

/* For query t, dp becomes ds and m becomes m p, which the sums below read. Before the window ds is 0. */
static void score_gradient(const struct pair_head *x, const struct saved *saved, int64_t t, const struct backward *w) {
    const elem *dy = x->dy + t * x->pair->dy.row, *p = saved->p + t * x->pair->Tk;
    const struct seen seen = seen_by(x, t);
    int64_t n = seen.to;
    factors(x, saved, w->m, t);
    for (int64_t j = 0; j < seen.from; j++) w->dp[j] = 0;
    for (int64_t j = seen.from; j < n; j++) w->dp[j] = w->m[j] * dot(dy, x->v + j * x->pair->v.row, x->pair->D);
    real delta = SUM_OVER(j, n, load(p[j]) * w->dp[j]);
    for (int64_t j = 0; j < n; j++) w->dp[j] = load(p[j]) * (w->dp[j] - delta);
    through_cap(x, t, seen, w->dp);
    add_bias_gradient(x, w->dp, t, 0, n);
    dropped_row(x, saved, w->m, t);
}

/* dq[t] = sum_j ds k[j] / sqrt(D)    dk[j] += ds q[t] / sqrt(D)    dv[j] += m p dy[t] */
static void add_query(const struct pair_head *x, int64_t t, const struct backward *w) {
    int64_t D = x->pair->D, row = x->pair->k.row;
    const struct seen seen = seen_by(x, t);
    const elem *q = x->q + t * x->pair->q.row, *dy = x->dy + t * x->pair->dy.row;
    real scale = (real)x->pair->scale;
    for (int64_t i = 0; i < D; i++) w->dq[i] = 0;
    for (int64_t j = seen.from; j < seen.to; j++)
        for (int64_t i = 0; i < D; i++) {
            w->dq[i] += scale * w->dp[j] * load(x->k[j * row + i]);
            w->dk[j * D + i] += scale * w->dp[j] * load(q[i]);
            w->dv[j * D + i] += w->m[j] * load(dy[i]);
        }
}

static void backward_head(const struct pair_head *x, struct scratch scratch) {
    const struct attention_pair *p = x->pair;
    int64_t Tk = p->Tk, D = p->D;
    struct saved saved = saved_of(x);
    struct backward w;
    w.dp = take(&scratch, Tk), w.m = take(&scratch, Tk);
    w.dk = take(&scratch, Tk * D), w.dv = take(&scratch, Tk * D), w.dq = take(&scratch, D);
    if (is_first_of_keys(x)) clear(w.dk, 2 * Tk * D);                /* dk, and dv, which lies behind it */
    for (int64_t t = 0; t < p->Tq; t++) {
        score_gradient(x, &saved, t, &w);
        add_query(x, t, &w);
        store_gradients(x, &p->dq, t, 1, w.dq, 1);
    }
    if (!is_last_of_keys(x)) return;
    store_gradients(x, &p->dk, 0, Tk, w.dk, 1);
    store_gradients(x, &p->dv, 0, Tk, w.dv, 1);
}

enum status CPU(attention_materialised_backward_input)(const struct call *call) {
    struct materialised m = materialised_of(call);
    spread_bias(&m.pair);
    each_head(&m.pair, attention_materialised_reals(call, ROW_BACKWARD_INPUT), backward_head);
    gather_bias(&m.pair);
    return OK;
}
