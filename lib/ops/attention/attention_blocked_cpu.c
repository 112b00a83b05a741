/* Causal attention by tiles of queries and keys; no T x T array. See attention.h. One head of one sample at a time;
 * threads divide the heads. Inside a head the order is fixed, so the result does not depend on the number of threads.
 *
 * Forward takes a tile of queries and loops over the tiles of keys with a running maximum and sum. When a later tile
 * raises the maximum from M to M', the sums so far are multiplied by e^(M - M'). No exponent is ever positive. Backward
 * takes a tile of keys, whose dk and dv stay in scratch, and loops over the tiles of queries.
 *
 * If a tile has queries and keys of the same positions, its products leave out the part above the diagonal, in whole
 * blocks of rows. The memory of the next head is prefetched during the products.
 *
 * The operands of the inner loop are copied to scratch once a head, dense and in real: keys (transposed) and values in
 * forward, queries and dy in backward. They fit into the second-level cache up to some thousand tokens. If the CPU
 * multiplies pairs of bf16 fast, attention_dots_cpu.c has the kernels of bf16. */
#include "lib/ops/attention/attention_tile_cpu.h"

#include "lib/base/integer.h"
#include "lib/ops/gemm/tile_product.h"
#include "lib/ops/gemm/transpose.h"
#include "lib/ops/vector.h"

attention_pair_kernel CPU(attention_pair_forward), CPU(attention_pair_backward);
attention_pair_counter CPU(attention_pair_reals);
#if defined ELEM_bf16 && ATTENTION_DOTS
#include "lib/ops/gemm/gemm_narrow.h"
#define BY_DOTS_IF_FAST(function, ...) \
    if (gemm_bf16_pairs()) return CPU(attention_dots_##function)(__VA_ARGS__)
#else
#define BY_DOTS_IF_FAST(function, ...) (void)0
#endif

/* ---- tiles in scratch: dense, in real ---- */

/* to (n,D) = factor x rows of `from` */
static void load_tile(real *to, const elem *from, int64_t stride, int64_t n, int64_t D, real factor) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++) to[i * D + d] = factor * load(from[i * stride + d]);
}

typedef real loose_vec __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
#if defined ELEM_fp64
typedef int64_t vec_index __attribute__((vector_size(VECTOR_BYTES)));
#else
typedef int32_t vec_index __attribute__((vector_size(VECTOR_BYTES)));
#endif
enum { SQUARE = VECTOR_BYTES / sizeof(real) };
DEFINE_TRANSPOSE(transpose_square, loose_vec, vec_index, SQUARE)

/* to (D,n) = (n,D) transposed, square by square */
static void transpose_tile(real *restrict to, const real *restrict from, int64_t n, int64_t D) {
    int64_t rows = n / SQUARE * SQUARE, columns = D / SQUARE * SQUARE;
    for (int64_t i = 0; i < rows; i += SQUARE)
        for (int64_t d = 0; d < columns; d += SQUARE) {
            loose_vec x[SQUARE];
#pragma GCC unroll 16
            for (int l = 0; l < SQUARE; l++) x[l] = *(const loose_vec *)(from + (i + l) * D + d);
            transpose_square(x);
#pragma GCC unroll 16
            for (int l = 0; l < SQUARE; l++) *(loose_vec *)(to + (d + l) * n + i) = x[l];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = i < rows ? columns : 0; d < D; d++) to[d * n + i] = from[i * D + d];
}

/* On the diagonal, the queries and the keys of a tile have the same positions, and no query sees a later key. */
static enum tile_part part_if(bool diagonal, enum tile_part part) { return diagonal ? part : TILE_WHOLE; }
static bool is_diagonal(const struct pair_head *x, int64_t t0, int64_t j0) { return x->pair->causal && t0 == j0; }

/* s (nq,nk) = q k^T for queries from t0 on and keys from j0 on; -infinity where the query does not see the key. */
static void scores(const struct pair_head *x, struct tile_ahead *ahead, real *s, const real *q,
                   const real *k_transposed, int64_t t0, int64_t nq, int64_t j0, int64_t nk) {
    int64_t D = x->pair->D;
    clear(s, nq * nk);
    tile_multiply_add(part_if(is_diagonal(x, t0, j0), TILE_C_LOWER), ahead, s, nq, nk, D, q, D, 1, k_transposed);
    cap_scores(x->pair, s, nq * nk);
    add_bias(x, s, t0, nq, j0, nk);
    hide_keys(x, s, t0, nq, j0, nk);
}

/* ---- prefetch during products: rows of a head are far apart, so that the hardware does not prefetch them ---- */

static void prefetch_rows(struct tile_ahead *x, const struct pair_head *head, const struct attention_vectors *v) {
    int64_t size = head->pair->sums && (v == &head->pair->dq || v == &head->pair->dk || v == &head->pair->dv)
                       ? (int64_t)sizeof(real) : (int64_t)sizeof(elem);
    x->at[x->n] = (const char *)v->at + offset_of(head, v) * size;
    x->stride[x->n++] = v->row * size;
}

static void prefetch_qkv(struct tile_ahead *x, const struct pair_head *head) {
    prefetch_rows(x, head, &head->pair->q);
    prefetch_rows(x, head, &head->pair->k);
    prefetch_rows(x, head, &head->pair->v);
}

/* Spread the prefetch of all rows over the products of a head, of which each tile of queries has `products` with each
 * tile of keys. Every block of rows prefetches at least one row, from the first block on. */
static void spread(struct tile_ahead *x, const struct attention_pair *p, int products) {
    int64_t tiles = 0;
    for (int64_t t0 = 0; t0 < p->Tq; t0 += TILE)
        tiles += max64(1, ceil_div(end_of_keys(p, t0) - first_key(p, t0), TILE));
    int64_t times = tiles * products * ceil_div(min64(TILE, p->Tq), TILE_ROWS);
    x->rows = min64(p->Tq, p->Tk);
    x->bytes = p->D * (int64_t)sizeof(elem);
    x->each = (int)((x->rows * x->n + times - 1) / times);
}

/* The head after this one, which is the thread's next head unless this is the thread's last. */
static bool next_head(const struct pair_head *head, struct pair_head *next) {
    int64_t i = head->b * head->pair->H + head->h + 1;
    if (i == head->pair->B * head->pair->H) return false;
    *next = pair_head_of(head->pair, i / head->pair->H, i % head->pair->H);
    return true;
}

static struct tile_ahead ahead_in_forward(const struct pair_head *head) {
    struct tile_ahead x = {0};
    struct pair_head next;
    if (!next_head(head, &next)) return x;
    prefetch_qkv(&x, &next);
    prefetch_rows(&x, &next, &head->pair->y);
    spread(&x, head->pair, 2);
    return x;
}

/* Backward also prefetches the gradients that this head will write. */
static struct tile_ahead ahead_in_backward(const struct pair_head *head) {
    struct tile_ahead x = {0};
    struct pair_head next;
    prefetch_rows(&x, head, &head->pair->dq);
    prefetch_rows(&x, head, &head->pair->dk);
    prefetch_rows(&x, head, &head->pair->dv);
    if (next_head(head, &next)) {
        prefetch_qkv(&x, &next);
        prefetch_rows(&x, &next, &head->pair->y);
        prefetch_rows(&x, &next, &head->pair->dy);
    }
    spread(&x, head->pair, 5);
    return x;
}

/* ---- forward ---- */

/* k_transposed (Tk,D): each tile of keys is transposed separately */
struct forward { real *k_transposed, *v, *q, *y, *s, *max, *sum; struct tile_ahead *ahead; };

static struct forward forward_scratch(struct scratch *x, int64_t Tq, int64_t Tk, int64_t D, struct tile_ahead *ahead) {
    int64_t rows = min64(TILE, max64(Tq, Tk)), tile = min64(TILE, Tq), keys = min64(TILE, Tk);
    struct forward w = {.ahead = ahead};
    w.k_transposed = take(x, Tk * D);
    w.v = take(x, Tk * D);
    w.q = take(x, rows * D);
    w.y = take(x, tile * D);
    w.s = take(x, tile * keys);
    w.max = take(x, tile);
    w.sum = take(x, tile);
    return w;
}

/* Load all keys and values of the head. Keys pass through w->q, which is free until the first tile of queries is
 * loaded. */
static void load_keys(const struct pair_head *x, const struct forward *w) {
    int64_t Tk = x->pair->Tk, D = x->pair->D, row = x->pair->k.row;
    for (int64_t j0 = 0; j0 < Tk; j0 += TILE) {
        int64_t nk = min64(TILE, Tk - j0);
        load_tile(w->q, x->k + j0 * row, row, nk, D, 1);
        transpose_tile(w->k_transposed + j0 * D, w->q, nk, D);
    }
    load_tile(w->v, x->v, x->pair->v.row, Tk, D, 1);
}

/* Queries t0 .. t0 + nq-1 against the keys j0 .. j0 + nk-1. */
static void forward_keys(const struct pair_head *x, const struct forward *w, int64_t t0, int64_t nq, int64_t j0) {
    int64_t D = x->pair->D, nk = min64(TILE, x->pair->Tk - j0);
    scores(x, w->ahead, w->s, w->q, w->k_transposed + j0 * D, t0, nq, j0, nk);
    soften(w->s, nq, nk, w->max, w->sum, w->y, D);
    if (x->pair->dropout.on)
        for (int64_t i = 0; i < nq; i++) apply_dropout(x, w->s + i * nk, t0 + i, j0, nk);
    tile_multiply_add(part_if(is_diagonal(x, t0, j0), TILE_A_LOWER), w->ahead, w->y, nq, D, nk, w->s, nk, 1,
                      w->v + j0 * D);
}

static void forward_head(const struct pair_head *x, const struct forward *w) {
    const struct attention_pair *p = x->pair;
    if (is_first_of_keys(x)) load_keys(x, w);
    for (int64_t t0 = 0; t0 < p->Tq; t0 += TILE) {
        int64_t nq = min64(TILE, p->Tq - t0);
        load_tile(w->q, x->q + t0 * p->q.row, p->q.row, nq, p->D, (real)p->scale);
        clear(w->y, nq * p->D);
        start_queries(x, w->max, w->sum, nq);
        for (int64_t j0 = first_key(p, t0); j0 < end_of_keys(p, t0); j0 += TILE) forward_keys(x, w, t0, nq, j0);
        finish_queries(x, w->y, w->max, w->sum, t0, nq);
    }
}

static void run_forward(const struct pair_head *x, struct scratch scratch) {
    struct tile_ahead ahead = ahead_in_forward(x);
    struct forward w = forward_scratch(&scratch, x->pair->Tq, x->pair->Tk, x->pair->D, &ahead);
    forward_head(x, &w);
}

enum status CPU(attention_pair_forward)(const struct attention_pair *p) {
    BY_DOTS_IF_FAST(forward, p);
    spread_bias(p);
    each_head(p, CPU(attention_pair_reals)(p, false), run_forward);
    return OK;
}

/* ---- backward ---- */

struct backward {
    real *q, *dy, *dq, *delta, *lse, *k, *k_transposed, *v_transposed, *dk, *dv, *p, *ds;
    struct tile_ahead *ahead;
};

/* dk and dv have room for one tile of keys, or for all keys where several heads add to them. */
static struct backward backward_scratch(struct scratch *x, int64_t Tq, int64_t Tk, int64_t D, int64_t shared_by,
                                        struct tile_ahead *ahead) {
    int64_t queries = Tq * D, keys = min64(TILE, Tk) * D, square = min64(TILE, Tq) * min64(TILE, Tk);
    int64_t sums = shared_by > 1 ? Tk * D : keys;
    struct backward w = {.ahead = ahead};
    w.q = take(x, queries);
    w.dy = take(x, queries);
    w.dq = take(x, queries);
    w.delta = take(x, Tq);
    w.lse = take(x, Tq);
    w.k = take(x, keys);
    w.k_transposed = take(x, keys);
    w.v_transposed = take(x, keys);
    w.dk = take(x, sums);
    w.dv = take(x, sums);
    w.p = take(x, square);
    w.ds = take(x, square);
    return w;
}

int64_t CPU(attention_pair_reals)(const struct attention_pair *p, bool backward) {
    BY_DOTS_IF_FAST(reals, p, backward);
    struct scratch x = {NULL, 0};
    if (backward) backward_scratch(&x, p->Tq, p->Tk, p->D, p->shared_by, NULL);
    else forward_scratch(&x, p->Tq, p->Tk, p->D, NULL);
    return x.n;
}

/* Offset of the tile of keys at j0 in dk and dv. */
static int64_t sums_at(const struct pair_head *x, int64_t j0) { return x->pair->shared_by > 1 ? j0 * x->pair->D : 0; }

/* Load, for all queries of the head: q / sqrt(D), dy, lse and delta. */
static void load_queries(const struct pair_head *x, const struct backward *w) {
    const struct attention_pair *p = x->pair;
    load_tile(w->q, x->q, p->q.row, p->Tq, p->D, (real)p->scale);
    load_tile(w->dy, x->dy, p->dy.row, p->Tq, p->D, 1);
    load_statistics(x, w->lse, w->delta);
}

/* Add the share of the tile of queries at t0 and the tile of keys at j0 to dk, dv and dq. */
static void backward_tile(const struct pair_head *x, const struct backward *w, int64_t t0, int64_t nq, int64_t j0,
                          int64_t nk) {
    int64_t D = x->pair->D, sums = sums_at(x, j0);
    bool diagonal = is_diagonal(x, t0, j0);
    const real *q = w->q + t0 * D, *dy = w->dy + t0 * D;
    scores(x, w->ahead, w->p, q, w->k_transposed, t0, nq, j0, nk);
    clear(w->ds, nq * nk);
    tile_multiply_add(part_if(diagonal, TILE_C_LOWER), w->ahead, w->ds, nq, nk, D, dy, D, 1, w->v_transposed);
    for (int64_t i = 0; i < nq; i++)
        score_gradient(x, w->p + i * nk, w->ds + i * nk, w->lse[t0 + i], w->delta[t0 + i], t0 + i, j0, nk);
    tile_multiply_add(part_if(diagonal, TILE_A_UPPER), w->ahead, w->dv + sums, nk, D, nq, w->p, 1, nk, dy);
    tile_multiply_add(part_if(diagonal, TILE_A_UPPER), w->ahead, w->dk + sums, nk, D, nq, w->ds, 1, nk, q);
    tile_multiply_add(part_if(diagonal, TILE_A_LOWER), w->ahead, w->dq + t0 * D, nq, D, nk, w->ds, nk, 1, w->k);
}

static void backward_keys(const struct pair_head *x, const struct backward *w, int64_t j0) {
    const struct attention_pair *p = x->pair;
    int64_t D = p->D, nk = min64(TILE, p->Tk - j0);
    real *dk = w->dk + sums_at(x, j0), *dv = w->dv + sums_at(x, j0);
    load_tile(w->k, x->v + j0 * p->v.row, p->v.row, nk, D, 1);
    transpose_tile(w->v_transposed, w->k, nk, D);
    load_tile(w->k, x->k + j0 * p->k.row, p->k.row, nk, D, 1);
    transpose_tile(w->k_transposed, w->k, nk, D);
    if (is_first_of_keys(x)) clear(dk, nk * D), clear(dv, nk * D);
    for (int64_t t0 = first_query(p, j0); t0 < end_of_queries(p, j0); t0 += TILE)
        backward_tile(x, w, t0, min64(TILE, p->Tq - t0), j0, nk);
    if (!is_last_of_keys(x)) return;
    store_gradients(x, &p->dk, j0, nk, dk, 1);
    store_gradients(x, &p->dv, j0, nk, dv, 1);
}

static void backward_head(const struct pair_head *x, const struct backward *w) {
    clear(w->dq, x->pair->Tq * x->pair->D);
    load_queries(x, w);
    for (int64_t j0 = 0; j0 < x->pair->Tk; j0 += TILE) backward_keys(x, w, j0);
    store_gradients(x, &x->pair->dq, 0, x->pair->Tq, w->dq, (real)x->pair->scale);
}

static void run_backward(const struct pair_head *x, struct scratch scratch) {
    struct tile_ahead ahead = ahead_in_backward(x);
    struct backward w = backward_scratch(&scratch, x->pair->Tq, x->pair->Tk, x->pair->D, x->pair->shared_by, &ahead);
    backward_head(x, &w);
}

enum status CPU(attention_pair_backward)(const struct attention_pair *p) {
    BY_DOTS_IF_FAST(backward, p);
    spread_bias(p);
    each_head(p, CPU(attention_pair_reals)(p, true), run_backward);
    gather_bias(p);
    add_sink_gradients(p);
    return OK;
}
