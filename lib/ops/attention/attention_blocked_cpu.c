/* Causal attention by tiles of queries and keys; no T x T array. See attention.h. One head of one sample at a time;
 * threads divide the heads. Inside a head the order is fixed, so the result does not depend on the number of threads.
 *
 * Forward, for a tile of queries, goes over the tiles of keys with a running maximum and sum. When a later tile raises
 * the maximum from M to M', what has been summed so far is multiplied by e^(M - M'). No exponent is ever positive.
 * Backward goes the other way round: for a tile of keys, whose dk and dv stay in scratch, over the tiles of queries.
 *
 * Where a tile of queries meets the keys of the same positions, what lies above the diagonal is left out, as far as
 * blocks of rows allow. While products are made, the memory of the head that comes next is asked for.
 *
 * What all tiles of the other side read is brought into scratch once a head, dense and in real: keys (transposed) and
 * values in forward, queries and dy in backward. It fits the second-level cache up to some thousand tokens. bf16 has
 * kernels of its own where the CPU multiplies pairs of bf16: attention_dots_cpu.c. */
#include "lib/ops/attention/attention_tile_cpu.h"
#include <omp.h>

#if !(defined ELEM_bf16 && ATTENTION_DOTS)

#include "lib/base/integer.h"
#include "lib/ops/gemm/tile_product.h"
#include "lib/ops/gemm/transpose.h"
#include "lib/ops/vector.h"

kernel CPU(attention_blocked_forward), CPU(attention_blocked_backward_input);

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

/* A tile of queries with the tile of keys of the same positions: no query sees a later key. */
static enum tile_part part_if(bool diagonal, enum tile_part part) { return diagonal ? part : TILE_WHOLE; }

/* s (nq,nk) = q k^T for queries t0 .. and keys j0 .., -infinity where a key is later than its query. */
static void scores(struct tile_ahead *ahead, real *s, const real *q, const real *k_transposed, int64_t t0, int64_t nq,
                   int64_t j0, int64_t nk, int64_t D) {
    clear(s, nq * nk);
    tile_multiply_add(part_if(t0 == j0, TILE_C_LOWER), ahead, s, nq, nk, D, q, D, 1, k_transposed);
    hide_later_keys(s, t0, nq, j0, nk);
}

/* ---- prefetch while products are made: rows of a head are far apart, so no hardware prefetches them ---- */

static void prefetch_rows(struct tile_ahead *x, const elem *at, int64_t stride) {
    x->at[x->n] = (const char *)at;
    x->stride[x->n++] = stride * (int64_t)sizeof(elem);
}

static void prefetch_qkv(struct tile_ahead *x, const struct head *head, const elem *qkv) {
    prefetch_rows(x, qkv + head->q_at, head->s.row);
    prefetch_rows(x, qkv + head->k_at, head->s.row);
    prefetch_rows(x, qkv + head->v_at, head->s.row);
}

/* All T rows of each, spread over the products of a head, `products` for each tile with each: from the first on, at
 * least a row a block. */
static void spread(struct tile_ahead *x, const struct attention_sizes *s, int products) {
    int64_t tiles = ceil_div(s->T, TILE), blocks = ceil_div(min64(TILE, s->T), TILE_ROWS);
    int64_t times = tiles * (tiles + 1) / 2 * products * blocks;
    x->rows = s->T;
    x->bytes = s->D * (int64_t)sizeof(elem);
    x->each = (int)((s->T * x->n + times - 1) / times);
}

/* The head after this one: for all but a thread's last, its next. */
static bool next_head(const struct call *call, const struct head *head, struct head *next) {
    int64_t i = head->b * head->s.H + head->h + 1;
    if (i == head->s.B * head->s.H) return false;
    *next = head_of(call, i / head->s.H, i % head->s.H);
    return true;
}

static struct tile_ahead ahead_in_forward(const struct call *call, const struct head *head) {
    struct tile_ahead x = {0};
    struct head next;
    if (!next_head(call, head, &next)) return x;
    prefetch_qkv(&x, &next, call->in[0].data);
    prefetch_rows(&x, (elem *)call->out[0].data + next.y_at, next.y_row);
    spread(&x, &head->s, 2);
    return x;
}

/* What this head will write, too. */
static struct tile_ahead ahead_in_backward(const struct call *call, const struct head *head) {
    struct tile_ahead x = {0};
    struct head next;
    prefetch_qkv(&x, head, call->din[0].data);
    if (next_head(call, head, &next)) {
        prefetch_qkv(&x, &next, call->in[0].data);
        prefetch_rows(&x, (elem *)call->out[0].data + next.y_at, next.y_row);
        prefetch_rows(&x, (elem *)call->dout[0].data + next.y_at, next.y_row);
    }
    spread(&x, &head->s, 5);
    return x;
}

/* ---- forward ---- */

/* k_transposed (T,D): each tile of keys transposed by itself */
struct forward { real *k_transposed, *v, *q, *y, *s, *max, *sum; struct tile_ahead *ahead; };

static struct forward forward_scratch(struct scratch *x, const struct attention_sizes *s, struct tile_ahead *ahead) {
    int64_t tile = min64(TILE, s->T), sequence = s->T * s->D, vectors = tile * s->D;
    struct forward w = {.ahead = ahead};
    w.k_transposed = take(x, sequence);
    w.v = take(x, sequence);
    w.q = take(x, vectors);
    w.y = take(x, vectors);
    w.s = take(x, tile * tile);
    w.max = take(x, tile);
    w.sum = take(x, tile);
    return w;
}

/* All keys and values of the head. The tile of queries is free until the first is loaded. */
static void load_keys(const struct head *head, const elem *qkv, const struct forward *w) {
    int64_t T = head->s.T, D = head->s.D, row = head->s.row;
    for (int64_t j0 = 0; j0 < T; j0 += TILE) {
        int64_t nk = min64(TILE, T - j0);
        load_tile(w->q, qkv + head->k_at + j0 * row, row, nk, D, 1);
        transpose_tile(w->k_transposed + j0 * D, w->q, nk, D);
    }
    load_tile(w->v, qkv + head->v_at, row, T, D, 1);
}

/* Queries t0 .. t0 + nq-1 against the keys j0 .. j0 + nk-1. */
static void forward_keys(const struct head *head, const struct forward *w, int64_t t0, int64_t nq, int64_t j0) {
    int64_t D = head->s.D, nk = min64(TILE, head->s.T - j0);
    scores(w->ahead, w->s, w->q, w->k_transposed + j0 * D, t0, nq, j0, nk, D);
    soften(w->s, nq, nk, w->max, w->sum, w->y, D);
    if (head->dropout.on)
        for (int64_t i = 0; i < nq; i++) apply_dropout(head, w->s + i * nk, t0 + i, j0, nk);
    tile_multiply_add(part_if(t0 == j0, TILE_A_LOWER), w->ahead, w->y, nq, D, nk, w->s, nk, 1, w->v + j0 * D);
}

static void forward_head(const struct head *head, const elem *qkv, elem *y, real *lse, const struct forward *w) {
    int64_t T = head->s.T, D = head->s.D;
    load_keys(head, qkv, w);
    for (int64_t t0 = 0; t0 < T; t0 += TILE) {
        int64_t nq = min64(TILE, T - t0);
        load_tile(w->q, qkv + head->q_at + t0 * head->s.row, head->s.row, nq, D, (real)head->s.scale);
        clear(w->y, nq * D);
        for (int64_t i = 0; i < nq; i++) w->max[i] = -(real)INFINITY, w->sum[i] = 0;
        for (int64_t j0 = 0; j0 <= t0; j0 += TILE) forward_keys(head, w, t0, nq, j0);
        finish_queries(head, w->y, w->max, w->sum, t0, nq, y, lse);
    }
}

enum status CPU(attention_blocked_forward)(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    int64_t reals = attention_blocked_reals(call, ROW_FORWARD);
#pragma omp parallel for collapse(2) num_threads(attention_threads(call))
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++) {
            struct head head = head_of(call, b, h);
            struct tile_ahead ahead = ahead_in_forward(call, &head);
            struct scratch scratch = {(real *)call->work + omp_get_thread_num() * reals, 0};
            struct forward w = forward_scratch(&scratch, &s, &ahead);
            forward_head(&head, call->in[0].data, call->out[0].data, call->out[1].data, &w);
        }
    return OK;
}

/* ---- backward ---- */

struct backward {
    real *q, *dy, *dq, *delta, *lse, *k, *k_transposed, *v_transposed, *dk, *dv, *p, *ds;
    struct tile_ahead *ahead;
};

static struct backward backward_scratch(struct scratch *x, const struct attention_sizes *s, struct tile_ahead *ahead) {
    int64_t tile = min64(TILE, s->T), sequence = s->T * s->D, vectors = tile * s->D;
    struct backward w = {.ahead = ahead};
    w.q = take(x, sequence);
    w.dy = take(x, sequence);
    w.dq = take(x, sequence);
    w.delta = take(x, s->T);
    w.lse = take(x, s->T);
    w.k = take(x, vectors);
    w.k_transposed = take(x, vectors);
    w.v_transposed = take(x, vectors);
    w.dk = take(x, vectors);
    w.dv = take(x, vectors);
    w.p = take(x, tile * tile);
    w.ds = take(x, tile * tile);
    return w;
}

int64_t CPU(attention_blocked_reals)(const struct attention_sizes *s, enum row_kind kind) {
    struct scratch x = {NULL, 0};
    if (kind == ROW_BACKWARD_INPUT) backward_scratch(&x, s, NULL);
    else forward_scratch(&x, s, NULL);
    return x.n;
}

/* What all queries of the head need: q / sqrt(D), dy, lse and delta. */
static void load_queries(const struct head *head, const struct call *call, const struct backward *w) {
    const elem *qkv = call->in[0].data, *dy = call->dout[0].data;
    int64_t T = head->s.T, D = head->s.D;
    load_tile(w->q, qkv + head->q_at, head->s.row, T, D, (real)head->s.scale);
    load_tile(w->dy, dy + head->y_at, head->y_row, T, D, 1);
    load_statistics(head, call, w->lse, w->delta);
}

/* The tile of queries at t0 with the tile of keys at j0: adds to dk, dv and dq. */
static void backward_tile(const struct head *head, const struct backward *w, int64_t t0, int64_t nq, int64_t j0,
                          int64_t nk) {
    int64_t D = head->s.D;
    bool diagonal = t0 == j0;
    const real *q = w->q + t0 * D, *dy = w->dy + t0 * D;
    scores(w->ahead, w->p, q, w->k_transposed, t0, nq, j0, nk, D);
    clear(w->ds, nq * nk);
    tile_multiply_add(part_if(diagonal, TILE_C_LOWER), w->ahead, w->ds, nq, nk, D, dy, D, 1, w->v_transposed);
    for (int64_t i = 0; i < nq; i++)
        score_gradient(head, w->p + i * nk, w->ds + i * nk, w->lse[t0 + i], w->delta[t0 + i], t0 + i, j0, nk);
    tile_multiply_add(part_if(diagonal, TILE_A_UPPER), w->ahead, w->dv, nk, D, nq, w->p, 1, nk, dy);
    tile_multiply_add(part_if(diagonal, TILE_A_UPPER), w->ahead, w->dk, nk, D, nq, w->ds, 1, nk, q);
    tile_multiply_add(part_if(diagonal, TILE_A_LOWER), w->ahead, w->dq + t0 * D, nq, D, nk, w->ds, nk, 1, w->k);
}

static void backward_keys(const struct head *head, const struct call *call, const struct backward *w, int64_t j0) {
    const elem *qkv = call->in[0].data;
    elem *dqkv = call->din[0].data;
    int64_t T = head->s.T, D = head->s.D, row = head->s.row, nk = min64(TILE, T - j0);
    load_tile(w->k, qkv + head->v_at + j0 * row, row, nk, D, 1);
    transpose_tile(w->v_transposed, w->k, nk, D);
    load_tile(w->k, qkv + head->k_at + j0 * row, row, nk, D, 1);
    transpose_tile(w->k_transposed, w->k, nk, D);
    clear(w->dk, nk * D);
    clear(w->dv, nk * D);
    for (int64_t t0 = j0; t0 < T; t0 += TILE) backward_tile(head, w, t0, min64(TILE, T - t0), j0, nk);
    store_tile(dqkv + head->k_at + j0 * row, row, w->dk, nk, D, 1, accumulates(call, 0));
    store_tile(dqkv + head->v_at + j0 * row, row, w->dv, nk, D, 1, accumulates(call, 0));
}

static void backward_head(const struct head *head, const struct call *call, const struct backward *w) {
    int64_t T = head->s.T, D = head->s.D;
    elem *dq = (elem *)call->din[0].data + head->q_at;
    clear(w->dq, T * D);
    load_queries(head, call, w);
    for (int64_t j0 = 0; j0 < T; j0 += TILE) backward_keys(head, call, w, j0);
    store_tile(dq, head->s.row, w->dq, T, D, (real)head->s.scale, accumulates(call, 0));
}

enum status CPU(attention_blocked_backward_input)(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    int64_t reals = attention_blocked_reals(call, ROW_BACKWARD_INPUT);
#pragma omp parallel for collapse(2) num_threads(attention_threads(call))
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++) {
            struct head head = head_of(call, b, h);
            struct tile_ahead ahead = ahead_in_backward(call, &head);
            struct scratch scratch = {(real *)call->work + omp_get_thread_num() * reals, 0};
            struct backward w = backward_scratch(&scratch, &s, &ahead);
            backward_head(&head, call, &w);
        }
    return OK;
}

#endif
