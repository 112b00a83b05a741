/* What the two blocked attention kernels of the CPU do with a tile of scores. See attention_blocked_cpu.c. Only *_cpu.c
 * files include this. */
#ifndef TRIVIUM_OPS_ATTENTION_TILE_CPU_H
#define TRIVIUM_OPS_ATTENTION_TILE_CPU_H

#include "lib/ops/attention/attention_cpu.h"
#include "lib/ops/attention/attention_pair.h"
#include <omp.h>

enum { TILE = ATTENTION_TILE };

/* A thread's scratch, handed out from its beginning. at NULL: it is only counted, for the plan. */
struct scratch { real *at; int64_t n; };
static inline void *take(struct scratch *x, int64_t n) {
    void *at = x->at ? x->at + x->n : NULL;
    x->n += n;
    return at;
}

/* One head of one sample of a pair: where its vectors of position 0 lie. */
struct pair_head { const struct attention_pair *pair; int64_t b, h; const elem *q, *k, *v, *dy; elem *y; real *lse; };

static inline int64_t offset_of(const struct pair_head *x, const struct attention_vectors *v) {
    return x->b * v->sample + x->h * x->pair->D;
}
static inline elem *elements_of(const struct pair_head *x, const struct attention_vectors *v) {
    return v->at ? (elem *)v->at + offset_of(x, v) : NULL;
}

static inline struct pair_head pair_head_of(const struct attention_pair *p, int64_t b, int64_t h) {
    struct pair_head x = {.pair = p, .b = b, .h = h};
    x.q = elements_of(&x, &p->q), x.k = elements_of(&x, &p->k), x.v = elements_of(&x, &p->v);
    x.y = elements_of(&x, &p->y), x.dy = elements_of(&x, &p->dy);
    x.lse = (real *)p->lse + (b * p->H + h) * p->lse_row;
    return x;
}

/* All heads, divided over the threads, each with `reals` of scratch. */
static inline void each_head(const struct attention_pair *p, int64_t reals,
                             void (*run)(const struct pair_head *, struct scratch)) {
#pragma omp parallel for collapse(2) num_threads(p->n_threads)
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t h = 0; h < p->H; h++) {
            struct pair_head head = pair_head_of(p, b, h);
            run(&head, (struct scratch){(real *)p->work + omp_get_thread_num() * reals, 0});
            if (p->between && omp_get_thread_num() == 0) p->between();
        }
}

static inline void clear(real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

static inline void store_tile(elem *to, int64_t stride, const real *from, int64_t n, int64_t D, real factor, int add) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++) put(to + i * stride + d, factor * from[i * D + d], add);
}

/* Gradients of the vectors from position t on: to elements, or on top of real sums. */
static inline void store_gradients(const struct pair_head *x, const struct attention_vectors *v, int64_t t, int64_t n,
                                   const real *from, real factor) {
    int64_t D = x->pair->D, at = offset_of(x, v) + t * v->row;
    if (!x->pair->sums) {
        store_tile((elem *)v->at + at, v->row, from, n, D, factor, x->pair->add);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++) ((real *)v->at)[at + i * v->row + d] += factor * from[i * D + d];
}

/* s (nq,nk), queries t0 .. and keys j0 ..: -infinity where a key is later than its query. */
static inline void hide_later_keys(const struct pair_head *x, real *s, int64_t t0, int64_t nq, int64_t j0, int64_t nk) {
    if (!x->pair->causal || j0 + nk <= t0 + 1) return;
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = t0 + i + 1 - j0; j < nk; j++) s[i * nk + j] = -(real)INFINITY;
}

/* Tiles of keys that a tile of queries meets end here; tiles of queries that a tile of keys meets begin here. */
static inline int64_t end_of_keys(const struct attention_pair *p, int64_t t0) {
    return p->causal ? min64(t0 + TILE, p->Tk) : p->Tk;
}
static inline int64_t first_query(const struct attention_pair *p, int64_t j0) { return p->causal ? j0 : 0; }

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

/* m[0 .. n-1] for query t and keys j ..: keys may be two runs of places. */
static inline void pair_factors(const struct pair_head *x, real *m, int64_t t, int64_t j, int64_t n) {
    const struct attention_pair *p = x->pair;
    int64_t turn = p->keys.jump ? max64(0, min64(p->keys.turn - j, n)) : n;
    int64_t place = axis_global(&p->queries, t), head = p->first_head + x->h, sample = p->dropout.first_sample + x->b;
    for (int64_t i = 0, end; i < n; i = end) {
        end = min64(i + COLUMNS, i < turn ? turn : n);
        dropout_factors(&p->dropout, m + i, axis_global(&p->keys, j + i), end - i, place, head, sample);
    }
}

static inline void apply_dropout(const struct pair_head *x, real *s, int64_t t, int64_t j0, int64_t nk) {
    real m[TILE];
    pair_factors(x, m, t, j0, nk);
    for (int64_t j = 0; j < nk; j++) s[j] *= m[j];
}

/* y and lse of queries t0 .. t0 + nq-1, from what has been summed over all keys. */
static inline void finish_queries(const struct pair_head *x, const real *y, const real *max, const real *sum,
                                  int64_t t0, int64_t nq) {
    int64_t D = x->pair->D;
    for (int64_t i = 0; i < nq; i++) {
        store_tile(x->y + (t0 + i) * x->pair->y.row, 0, y + i * D, 1, D, 1 / sum[i], false);
        x->lse[t0 + i] = max[i] + (real)log(sum[i]);
    }
}

/* From scores and dy v^T: p becomes m p, ds becomes p (m dy v^T - delta), for one query. */
static inline void score_gradient(const struct pair_head *x, real *p, real *ds, real lse, real delta, int64_t t,
                                  int64_t j0, int64_t nk) {
    real m[TILE];
    if (x->pair->dropout.on)
        pair_factors(x, m, t, j0, nk);
    else
        for (int64_t j = 0; j < nk; j++) m[j] = 1;
    for (int64_t j = 0; j < nk; j++) {
        real probability = real_exp(p[j] - lse);
        ds[j] = probability * (m[j] * ds[j] - delta);
        p[j] = m[j] * probability;
    }
}

/* lse of the head's queries, and delta[t] = dy[t] . y[t]. */
static inline void load_statistics(const struct pair_head *x, real *lse, real *delta) {
    const elem *y = x->y, *dy = x->dy;
    for (int64_t t = 0; t < x->pair->Tq; t++, y += x->pair->y.row, dy += x->pair->dy.row) {
        delta[t] = SUM_OVER(d, x->pair->D, load(dy[d]) * load(y[d]));
        lse[t] = x->lse[t];
    }
}

#endif
