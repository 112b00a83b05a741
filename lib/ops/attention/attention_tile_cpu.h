/* Functions on a tile of scores that the two blocked attention kernels of the CPU share. See attention_blocked_cpu.c.
 * Only *_cpu.c files include this. */
#pragma once

#include "lib/ops/attention/attention_cpu.h"

enum { TILE = ATTENTION_TILE };

#if defined ELEM_bf16 && ATTENTION_DOTS
#pragma GCC visibility push(hidden)
/* The kernels of attention_dots_cpu.c. Hidden: attention_blocked_cpu.c alone calls them, and ARCH=any does not compile
 * them for each level (tools/levels). */
attention_pair_kernel CPU(attention_dots_forward), CPU(attention_dots_backward);
/* Their scratch. */
attention_pair_counter CPU(attention_dots_reals);
#pragma GCC visibility pop
#endif

/* s (nq,nk), queries t0 .. and keys j0 ..: -infinity where the query does not see the key. */
static inline void hide_keys(const struct pair_head *x, real *s, int64_t t0, int64_t nq, int64_t j0, int64_t nk) {
    const struct attention_pair *p = x->pair;
    if (attention_end_of_keys(p, t0) >= j0 + nk && attention_first_key(p, t0 + nq - 1) <= j0) return;
    for (int64_t i = 0; i < nq; i++) {
        int64_t first = attention_first_key(p, t0 + i) - j0, end = attention_end_of_keys(p, t0 + i) - j0;
        for (int64_t j = 0; j < min64(first, nk); j++) s[i * nk + j] = -(real)INFINITY;
        for (int64_t j = max64(end, 0); j < nk; j++) s[i * nk + j] = -(real)INFINITY;
    }
}

/* The tiles of keys that a tile of queries sees, and the tiles of queries that see a tile of keys: of a window, no
 * others are computed. */
static inline int64_t first_key(const struct attention_pair *p, int64_t t0) {
    return attention_first_key(p, t0) / TILE * TILE;
}
static inline int64_t end_of_keys(const struct attention_pair *p, int64_t t0) {
    return p->causal ? min64(t0 + TILE, p->Tk) : p->Tk;
}
static inline int64_t first_query(const struct attention_pair *p, int64_t j0) { return p->causal ? j0 : 0; }
static inline int64_t end_of_queries(const struct attention_pair *p, int64_t j0) {
    return attention_end_of_queries(p, min64(j0 + TILE, p->Tk) - 1);
}

/* Before the first tile of keys, n queries have seen the sink, if there is one. */
static inline void start_queries(const struct pair_head *x, real *max, real *sum, int64_t n) {
    for (int64_t i = 0; i < n; i++) max[i] = x->sink, sum[i] = x->sink > -(real)INFINITY ? 1 : 0;
}

/* The running softmax of a tile: s (nq,nk) becomes e^(s - max), and sum and y (nq,D), which are relative to the old
 * maximum, are scaled down. Each step runs over all rows before the next, because the steps of one row are
 * dependent. A row that has seen no key yet has maximum -infinity, and is relative to 0. */
static inline void soften(real *s, int64_t nq, int64_t nk, real *max, real *sum, real *y, int64_t D) {
    real shrink[TILE], base[TILE];
    for (int64_t i = 0; i < nq; i++) {
        real tile_max = MAX_OVER(j, nk, s[i * nk + j]), new_max = tile_max > max[i] ? tile_max : max[i];
        base[i] = new_max == -(real)INFINITY ? 0 : new_max;
        shrink[i] = max[i] - base[i];
        max[i] = new_max;
    }
    for (int64_t i = 0; i < nq; i++) shrink[i] = real_exp(shrink[i]);
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = 0; j < nk; j++) s[i * nk + j] = real_exp(s[i * nk + j] - base[i]);
    for (int64_t i = 0; i < nq; i++) sum[i] = sum[i] * shrink[i] + SUM_OVER(j, nk, s[i * nk + j]);
    for (int64_t i = 0; i < nq; i++)
        for (int64_t d = 0; d < D; d++) y[i * D + d] *= shrink[i];
}

static inline void apply_dropout(const struct pair_head *x, real *s, int64_t t, int64_t j0, int64_t nk) {
    real m[TILE];
    pair_factors(x, m, t, j0, nk);
    for (int64_t j = 0; j < nk; j++) s[j] *= m[j];
}

/* y and lse of queries t0 .. t0 + nq-1, from the sums over all keys. Without a key y is 0, and lse -infinity. */
static inline void finish_queries(const struct pair_head *x, const real *y, const real *max, const real *sum,
                                  int64_t t0, int64_t nq) {
    int64_t D = x->pair->D;
    for (int64_t i = 0; i < nq; i++) {
        store_tile(x->y + (t0 + i) * x->pair->y.row, 0, y + i * D, 1, D, sum[i] > 0 ? 1 / sum[i] : 0, false);
        x->lse[t0 + i] = max[i] + (real)log(sum[i]);
    }
}

/* For one query, whose scores are in p and whose dy v^T is in ds: p becomes m p, ds becomes p (m dy v^T - delta). */
static inline void score_gradient(const struct pair_head *x, real *p, real *ds, real lse, real delta, int64_t t,
                                  int64_t j0, int64_t nk) {
    real m[TILE], probability[TILE];
    if (x->pair->dropout.on)
        pair_factors(x, m, t, j0, nk);
    else
        for (int64_t j = 0; j < nk; j++) m[j] = 1;
    for (int64_t j = 0; j < nk; j++) {
        probability[j] = real_exp(p[j] - lse);
        ds[j] = probability[j] * (m[j] * ds[j] - delta);
    }
    cap_gradient(x->pair, ds, p, nk);
    for (int64_t j = 0; j < nk; j++) p[j] = m[j] * probability[j];
    add_bias_gradient(x, ds, t, j0, nk);
}

/* lse of the head's queries, and delta[t] = dy[t] . y[t]. */
static inline void load_statistics(const struct pair_head *x, real *lse, real *delta) {
    const elem *y = x->y, *dy = x->dy;
    for (int64_t t = 0; t < x->pair->Tq; t++, y += x->pair->y.row, dy += x->pair->dy.row) {
        delta[t] = SUM_OVER(d, x->pair->D, load(dy[d]) * load(y[d]));
        lse[t] = x->lse[t];
    }
}
