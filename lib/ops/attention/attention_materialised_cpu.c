/* Causal attention as its formulas stand, with the probabilities p (B,H,T,T) saved from forward to backward, and their
 * dropout too where the step stores it. See attention.h. One head of one sample at a time; threads divide the heads. */
#include "lib/ops/attention/attention_cpu.h"
#include <omp.h>

kernel CPU(attention_materialised_forward), CPU(attention_materialised_backward_input);

/* What a head of a sample saves, (T,T) each. mask and dropped are NULL where dropout is drawn again. */
struct saved { elem *p; uint8_t *mask; elem *dropped; };

static struct saved saved_of(const struct call *call, const struct head *head) {
    int64_t at = (head->b * head->s.H + head->h) * head->s.T * head->s.T;
    struct saved saved = {(elem *)call->out[1].data + at, NULL, NULL};
    if (!head->dropout.mask) return saved;
    saved.mask = head->dropout.mask + at;
    saved.dropped = (elem *)call->out[3].data + at;
    return saved;
}

static real dot(const elem *a, const elem *b, int64_t n) { return SUM_OVER(i, n, load(a[i]) * load(b[i])); }

/* p[j] for j <= t, one row of the softmax: p = e^(s - max) / sum. */
static void probabilities(const struct head *head, const elem *qkv, int64_t t, real *p) {
    const elem *q = qkv + head->q_at + t * head->s.row, *k = qkv + head->k_at;
    real scale = (real)head->s.scale;
    for (int64_t j = 0; j <= t; j++) p[j] = scale * dot(q, k + j * head->s.row, head->s.D);
    real max = MAX_OVER(j, t + 1, p[j]);
    for (int64_t j = 0; j <= t; j++) p[j] = real_exp(p[j] - max);
    real sum = SUM_OVER(j, t + 1, p[j]);
    for (int64_t j = 0; j <= t; j++) p[j] /= sum;
}

static void draw(const struct head *head, real *m, int64_t t, int64_t n) {
    if (head->dropout.on)
        probability_factors(head, m, t, 0, n);
    else
        for (int64_t j = 0; j < n; j++) m[j] = 1;
}

/* m p as backward reads it: from the p that was saved, and rounded, whether it was stored or is recomputed. */
static elem dropped_of(real m, elem p) { return store(m * load(p)); }

/* Row t of everything that is saved: all T columns, so that what is planned is what is written. */
static void save_row(const struct saved *saved, const real *p, const real *m, int64_t t, int64_t T) {
    int64_t at = t * T;
    for (int64_t j = 0; j < T; j++) saved->p[at + j] = store(j <= t ? p[j] : 0);
    if (!saved->mask) return;
    mask_store(saved->mask + at, m, T);
    for (int64_t j = 0; j < T; j++) saved->dropped[at + j] = dropped_of(m[j], saved->p[at + j]);
}

static void forward_head(const struct head *head, const elem *qkv, elem *y, const struct saved *saved, real *p,
                         real *m) {
    int64_t T = head->s.T, D = head->s.D;
    const elem *v = qkv + head->v_at;
    for (int64_t t = 0; t < T; t++) {
        probabilities(head, qkv, t, p);
        draw(head, m, t, T);
        save_row(saved, p, m, t, T);
        for (int64_t j = 0; j <= t; j++) p[j] *= m[j];
        for (int64_t i = 0; i < D; i++)
            y[head->y_at + t * head->y_row + i] = store(SUM_OVER(j, t + 1, p[j] * load(v[j * head->s.row + i])));
    }
}

enum status CPU(attention_materialised_forward)(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    int64_t reals = attention_materialised_reals(call, ROW_FORWARD);
#pragma omp parallel for collapse(2) num_threads(attention_threads(call))
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++) {
            struct head head = head_of(call, b, h);
            struct saved saved = saved_of(call, &head);
            real *m = (real *)call->work + omp_get_thread_num() * reals, *p = m + s.T;
            forward_head(&head, call->in[0].data, call->out[0].data, &saved, p, m);
        }
    return OK;
}

/* ---- backward ---- */

struct backward { real *dp, *m, *dk, *dv, *dq; };   /* rows of T; (T,D) sums of the head; a row of D */

/* m of query t: what forward drew. */
static void factors(const struct head *head, const struct saved *saved, real *m, int64_t t) {
    if (head->dropout.on && saved->mask)
        mask_load(&head->dropout, saved->mask + t * head->s.T, m, t + 1);
    else
        draw(head, m, t, t + 1);
}

/* m p of query t over its m. */
static void dropped_row(const struct head *head, const struct saved *saved, real *m, int64_t t) {
    int64_t at = t * head->s.T;
    for (int64_t j = 0; j <= t; j++)
        m[j] = load(saved->dropped ? saved->dropped[at + j] : dropped_of(m[j], saved->p[at + j]));
}

/* ds of query t over dp, and m p over m: what the sums below are made of. */
static void score_gradient(const struct head *head, const elem *qkv, const elem *dy, const struct saved *saved,
                           int64_t t, const struct backward *w) {
    const elem *v = qkv + head->v_at, *p = saved->p + t * head->s.T;
    factors(head, saved, w->m, t);
    for (int64_t j = 0; j <= t; j++) w->dp[j] = w->m[j] * dot(dy, v + j * head->s.row, head->s.D);
    real delta = SUM_OVER(j, t + 1, load(p[j]) * w->dp[j]);
    for (int64_t j = 0; j <= t; j++) w->dp[j] = load(p[j]) * (w->dp[j] - delta);
    dropped_row(head, saved, w->m, t);
}

/* dq[t] = sum_j ds k[j] / sqrt(D)    dk[j] += ds q[t] / sqrt(D)    dv[j] += m p dy[t] */
static void add_query(const struct head *head, const elem *qkv, const elem *dy, int64_t t, const struct backward *w) {
    int64_t D = head->s.D, row = head->s.row;
    const elem *q = qkv + head->q_at + t * row, *k = qkv + head->k_at;
    real scale = (real)head->s.scale;
    for (int64_t i = 0; i < D; i++) w->dq[i] = 0;
    for (int64_t j = 0; j <= t; j++)
        for (int64_t i = 0; i < D; i++) {
            w->dq[i] += scale * w->dp[j] * load(k[j * row + i]);
            w->dk[j * D + i] += scale * w->dp[j] * load(q[i]);
            w->dv[j * D + i] += w->m[j] * load(dy[i]);
        }
}

static void backward_head(const struct head *head, const struct call *call, const struct backward *w) {
    struct saved saved = saved_of(call, head);
    int64_t T = head->s.T, D = head->s.D, row = head->s.row;
    const elem *qkv = call->in[0].data, *dy = (const elem *)call->dout[0].data + head->y_at;
    elem *dqkv = call->din[0].data;
    int add = accumulates(call, 0);
    for (int64_t i = 0; i < T * D; i++) w->dk[i] = w->dv[i] = 0;
    for (int64_t t = 0; t < T; t++) {
        score_gradient(head, qkv, dy + t * head->y_row, &saved, t, w);
        add_query(head, qkv, dy + t * head->y_row, t, w);
        for (int64_t i = 0; i < D; i++) put(dqkv + head->q_at + t * row + i, w->dq[i], add);
    }
    for (int64_t j = 0; j < T; j++)
        for (int64_t i = 0; i < D; i++) {
            put(dqkv + head->k_at + j * row + i, w->dk[j * D + i], add);
            put(dqkv + head->v_at + j * row + i, w->dv[j * D + i], add);
        }
}

enum status CPU(attention_materialised_backward_input)(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    int64_t reals = attention_materialised_reals(call, ROW_BACKWARD_INPUT);
#pragma omp parallel for collapse(2) num_threads(attention_threads(call))
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++) {
            struct head head = head_of(call, b, h);
            real *at = (real *)call->work + omp_get_thread_num() * reals;
            struct backward w = {at, at + s.T, at + 2 * s.T, at + (2 + s.D) * s.T, at + (2 + 2 * s.D) * s.T};
            backward_head(&head, call, &w);
        }
    return OK;
}
