/* What the attention kernels of the CPU share: heads, their scratch, and the draws of dropout. Only *_cpu.c files
 * include this. */
#pragma once

#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_bias.h"
#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/dropout_cpu.h"
#include "lib/ops/exp.h"
#include <omp.h>

/* A thread's scratch, which take() divides from its beginning on. at NULL: take() only counts, for the plan. */
struct scratch { real *at; int64_t n; };
static inline void *take(struct scratch *x, int64_t n) {
    void *at = x->at ? x->at + x->n : NULL;
    x->n += n;
    return at;
}

/* One head of one sample of a pair: addresses of its vectors at position 0. */
struct pair_head {
    const struct attention_pair *pair;
    int64_t b, h;
    const elem *q, *k, *v, *dy;
    elem *y;
    real *lse, *bias, *dbias;
    real sink;                           /* -infinity: none */
};

static inline int64_t offset_of(const struct pair_head *x, const struct attention_vectors *v) {
    return x->b * v->sample + x->h / v->shared_by * x->pair->D;
}
static inline elem *elements_of(const struct pair_head *x, const struct attention_vectors *v) {
    return v->at ? (elem *)v->at + offset_of(x, v) : NULL;
}

static inline struct pair_head pair_head_of(const struct attention_pair *p, int64_t b, int64_t h) {
    struct pair_head x = {.pair = p, .b = b, .h = h, .sink = -(real)INFINITY};
    if (p->sinks.logits) x.sink = load(((const elem *)p->sinks.logits)[h]);
    x.q = elements_of(&x, &p->q), x.k = elements_of(&x, &p->k), x.v = elements_of(&x, &p->v);
    x.y = elements_of(&x, &p->y), x.dy = elements_of(&x, &p->dy);
    if (p->lse) x.lse = (real *)p->lse + (b * p->H + h) * p->lse_row;
    if (p->table.rows) {                                             /* [j - t]: of key j and query t */
        int64_t n = p->Tq + p->Tk - 1;
        x.bias = (real *)p->table.by_distance + h * n + p->Tq - 1;
        if (p->table.found) x.dbias = (real *)p->table.found + (b * p->H + h) * n + p->Tq - 1;
    }
    return x;
}

/* Before the heads run: spread the bias over the distances, and clear its gradient by distance. */
static inline void spread_bias(const struct attention_pair *p) {
    int64_t n = p->Tq + p->Tk - 1;
    const elem *rows = p->table.rows;
    real *to = p->table.by_distance, *found = p->table.found;
    for (int64_t h = 0; rows && h < p->H; h++)
        for (int64_t i = 0; i < n; i++)
            to[h * n + i] = load(rows[attention_bucket(i - (p->Tq - 1), p->table.both_sides) * p->H + h]);
    for (int64_t i = 0; rows && found && i < p->B * p->H * n; i++) found[i] = 0;
}

/* After the heads have run: add the gradient by distance to the buckets, sample by sample, distance by distance. */
static inline void gather_bias(const struct attention_pair *p) {
    int64_t n = p->Tq + p->Tk - 1;
    const real *found = p->table.found;
    for (int64_t h = 0; p->table.rows && h < p->H; h++) {
        real bucket[ATTENTION_BUCKETS] = {0};
        for (int64_t b = 0; b < p->B; b++)
            for (int64_t i = 0; i < n; i++)
                bucket[attention_bucket(i - (p->Tq - 1), p->table.both_sides)] += found[(b * p->H + h) * n + i];
        for (int r = 0; r < ATTENTION_BUCKETS; r++) grad_add(&p->table.gradient, r * p->H + h, &bucket[r], 1);
    }
}

/* s (nq,nk) += bias, for queries from t0 on and keys from j0 on */
static inline void add_bias(const struct pair_head *x, real *s, int64_t t0, int64_t nq, int64_t j0, int64_t nk) {
    for (int64_t i = 0; x->bias && i < nq; i++)
        for (int64_t j = 0; j < nk; j++) s[i * nk + j] += x->bias[j0 + j - t0 - i];
}
static inline void add_bias_gradient(const struct pair_head *x, const real *ds, int64_t t, int64_t j0, int64_t nk) {
    for (int64_t j = 0; x->dbias && j < nk; j++) x->dbias[j0 + j - t] += ds[j];
}

/* s[i] = cap tanh(s[i] / cap), of one exponential whose argument is never positive. */
static inline void cap_scores(const struct attention_pair *p, real *s, int64_t n) {
    const real cap = (real)p->view.cap;
    for (int64_t i = 0; cap > 0 && i < n; i++) {
        real e = real_exp(-2 / cap * (s[i] < 0 ? -s[i] : s[i])), tanh = (1 - e) / (1 + e);
        s[i] = s[i] < 0 ? -cap * tanh : cap * tanh;
    }
}

/* ds[i] *= 1 - tanh^2, the slope of the cap, from capped scores. Of a hidden score, -infinity, it is 0. */
static inline void cap_gradient(const struct attention_pair *p, real *ds, const real *s, int64_t n) {
    const real cap = (real)p->view.cap;
    for (int64_t i = 0; cap > 0 && i < n; i++) {
        real tanh = s[i] < -cap ? -1 : s[i] / cap;
        ds[i] *= (1 - tanh) * (1 + tanh);
    }
}

/* After the heads have run backward: d sink = sum_t e^(sink - lse[t]) (0 - delta[t]), delta = dy . y, sample by sample.
 * Each thread has other heads. */
static inline void add_sink_gradients(const struct attention_pair *p) {
#pragma omp parallel for num_threads(p->n_threads) if (p->sinks.logits)
    for (int64_t h = 0; h < (p->sinks.logits ? p->H : 0); h++) {
        real sum = 0;
        for (int64_t b = 0; b < p->B; b++) {
            struct pair_head x = pair_head_of(p, b, h);
            real of_sample = 0;
            for (int64_t t = 0; t < p->Tq; t++, x.y += p->y.row, x.dy += p->dy.row)
                of_sample += real_exp(x.sink - x.lse[t]) * SUM_OVER(d, p->D, load(x.dy[d]) * load(x.y[d]));
            sum -= of_sample;
        }
        grad_add(&p->sinks.gradient, h, &sum, 1);
    }
}

/* Run all heads, divided over the threads, each with `reals` of scratch. Heads that share keys run one after the
 * other. */
static inline void each_head(const struct attention_pair *p, int64_t reals,
                             void (*run)(const struct pair_head *, struct scratch)) {
    int64_t shared = p->shared_by;
#pragma omp parallel for collapse(2) num_threads(p->n_threads)
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t first = 0; first < p->H; first += shared)
            for (int64_t h = first; h < first + shared; h++) {
                struct pair_head head = pair_head_of(p, b, h);
                run(&head, (struct scratch){(real *)p->work + omp_get_thread_num() * reals, 0});
                if (p->between && omp_get_thread_num() == 0) p->between();
            }
}

/* Is this head the first (the last) of the heads that share its keys? */
static inline bool is_first_of_keys(const struct pair_head *x) { return x->h % x->pair->shared_by == 0; }
static inline bool is_last_of_keys(const struct pair_head *x) { return (x->h + 1) % x->pair->shared_by == 0; }

static inline void clear(real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = 0;
}

static inline void store_tile(elem *to, int64_t stride, const real *from, int64_t n, int64_t D, real factor, int add) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++) put(to + i * stride + d, factor * from[i * D + d], add);
}

/* Store gradients of the vectors from position t on in elements, or add them to sums in real. */
static inline void store_gradients(const struct pair_head *x, const struct attention_vectors *v, int64_t t, int64_t n,
                                   const real *from, real factor) {
    int64_t D = x->pair->D, at = offset_of(x, v) + t * v->row;
    if (!x->pair->sums) {
        int add = v == &x->pair->dq ? x->pair->add_queries : x->pair->add_keys;
        store_tile((elem *)v->at + at, v->row, from, n, D, factor, add);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++) ((real *)v->at)[at + i * v->row + d] += factor * from[i * D + d];
}

/* m[0 .. n-1] for query t and the keys from j on. The pair's keys may be two ranges of positions. */
static inline void pair_factors(const struct pair_head *x, real *m, int64_t t, int64_t j, int64_t n) {
    const struct attention_pair *p = x->pair;
    int64_t turn = p->keys.jump ? max64(0, min64(p->keys.turn - j, n)) : n;
    int64_t place = axis_global(&p->queries, t), head = p->first_head + x->h, sample = p->dropout.first_sample + x->b;
    for (int64_t i = 0, end; i < n; i = end) {
        end = min64(i + COLUMNS, i < turn ? turn : n);
        dropout_factors(&p->dropout, m + i, axis_global(&p->keys, j + i), end - i, place, head, sample);
    }
}
