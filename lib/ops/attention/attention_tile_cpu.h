/* What the two blocked attention kernels of the CPU do with a tile of scores. See attention_blocked_cpu.c. Only *_cpu.c
 * files include this. */
#ifndef TRIVIUM_OPS_ATTENTION_TILE_CPU_H
#define TRIVIUM_OPS_ATTENTION_TILE_CPU_H

#include "lib/ops/attention/attention_cpu.h"

enum { TILE = ATTENTION_TILE };

/* A thread's scratch, handed out from its beginning. at NULL: it is only counted, for the plan. */
struct scratch { real *at; int64_t n; };
static inline void *take(struct scratch *x, int64_t n) {
    void *at = x->at ? x->at + x->n : NULL;
    x->n += n;
    return at;
}

static inline void clear(real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

static inline void store_tile(elem *to, int64_t stride, const real *from, int64_t n, int64_t D, real factor, int add) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++) put(to + i * stride + d, factor * from[i * D + d], add);
}

/* s (nq,nk), queries t0 .. and keys j0 ..: -infinity where a key is later than its query. */
static inline void hide_later_keys(real *s, int64_t t0, int64_t nq, int64_t j0, int64_t nk) {
    if (j0 + nk <= t0 + 1) return;
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = t0 + i + 1 - j0; j < nk; j++) s[i * nk + j] = -(real)INFINITY;
}

/* The running softmax of a tile: s (nq,nk) becomes e^(s - max), and what was summed under the old maximum, sum and y
 * (nq,D), is scaled down. A step for all rows, then the next: rows do not wait for each other, but the steps of one
 * would. */
static inline void soften(real *s, int64_t nq, int64_t nk, real *max, real *sum, real *y, int64_t D) {
    real shrink[TILE];
    for (int64_t i = 0; i < nq; i++) {
        real tile_max = MAX_OVER(j, nk, s[i * nk + j]), new_max = tile_max > max[i] ? tile_max : max[i];
        shrink[i] = max[i] - new_max;
        max[i] = new_max;
    }
    for (int64_t i = 0; i < nq; i++) shrink[i] = real_exp(shrink[i]);
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = 0; j < nk; j++) s[i * nk + j] = real_exp(s[i * nk + j] - max[i]);
    for (int64_t i = 0; i < nq; i++) sum[i] = sum[i] * shrink[i] + SUM_OVER(j, nk, s[i * nk + j]);
    for (int64_t i = 0; i < nq; i++)
        for (int64_t d = 0; d < D; d++) y[i * D + d] *= shrink[i];
}

static inline void apply_dropout(const struct head *head, real *s, int64_t t, int64_t j0, int64_t nk) {
    real m[TILE];
    probability_factors(head, m, t, j0, nk);
    for (int64_t j = 0; j < nk; j++) s[j] *= m[j];
}

/* y and lse of queries t0 .. t0 + nq-1, from what has been summed over all keys. */
static inline void finish_queries(const struct head *head, const real *y, const real *max, const real *sum, int64_t t0,
                                  int64_t nq, elem *to, real *lse) {
    int64_t T = head->s.T, D = head->s.D, H = head->s.H;
    for (int64_t i = 0; i < nq; i++) {
        store_tile(to + head->y_at + (t0 + i) * head->y_row, 0, y + i * D, 1, D, 1 / sum[i], false);
        lse[(head->b * H + head->h) * T + t0 + i] = max[i] + (real)log(sum[i]);
    }
}

/* From scores and dy v^T: p becomes m p, ds becomes p (m dy v^T - delta), for one query. */
static inline void score_gradient(const struct head *head, real *p, real *ds, real lse, real delta, int64_t t,
                                  int64_t j0, int64_t nk) {
    real m[TILE];
    if (head->dropout.on)
        probability_factors(head, m, t, j0, nk);
    else
        for (int64_t j = 0; j < nk; j++) m[j] = 1;
    for (int64_t j = 0; j < nk; j++) {
        real probability = real_exp(p[j] - lse);
        ds[j] = probability * (m[j] * ds[j] - delta);
        p[j] = m[j] * probability;
    }
}

/* lse of the head's queries, and delta[t] = dy[t] . y[t]. */
static inline void load_statistics(const struct head *head, const struct call *call, real *lse, real *delta) {
    const elem *y = (const elem *)call->out[0].data + head->y_at, *dy = (const elem *)call->dout[0].data + head->y_at;
    const real *all = (const real *)call->out[1].data + (head->b * head->s.H + head->h) * head->s.T;
    for (int64_t t = 0; t < head->s.T; t++, y += head->y_row, dy += head->y_row) {
        delta[t] = SUM_OVER(d, head->s.D, load(dy[d]) * load(y[d]));
        lse[t] = all[t];
    }
}

#endif
