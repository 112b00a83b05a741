/* Blocked causal attention in bf16 on CPUs that multiply pairs of bf16 fast (gemm_bf16_pairs). The algorithm and the
 * order of tiles are those of attention_blocked_cpu.c, which other CPUs run. In this file tile_dot.h computes all six
 * products. So p and ds, which are computed in fp32, are rounded to bf16 before they are multiplied, as FlashAttention
 * does on a GPU. Sums stay fp32.
 *
 * A product needs its factors paired along the axis that it sums over, and products sum over both axes of a matrix:
 *
 *   forward    q k^T  over d        p v    over keys
 *   backward   q k^T  over d        dy v^T over d
 *              p^T dy over queries  ds^T q over queries  ds k over keys
 *
 * So most matrices are packed in two of three ways, once a head or once a tile: "rows" (positions, pairs of d) for a
 * left factor; "columns" (pairs of d, positions), transposed, or "pairs" (pairs of positions, d) for a right factor. */
#include "lib/ops/attention/attention_tile_cpu.h"

#if defined ELEM_bf16 && ATTENTION_DOTS

#include "lib/ops/gemm/tile_dot.h"

static int64_t half(int64_t n) { return (n + 1) / 2; }

/* Scratch is handed out in whole cache lines: n words of 4 bytes, rounded up. The last array is cleared with its
 * padding, so that all of the scratch is written (lib/device/arena.h). */
static int64_t lines(int64_t n) { return round_up(n, 16); }

/* ---- packing: n positions of D numbers, `stride` apart ---- */

static bf16_pair pair_at(const elem *x, int64_t p, int64_t D) {
    return pair_of(x[2 * p], 2 * p + 1 < D ? x[2 * p + 1] : 0);
}

/* to (n, D/2) */
static void pack_rows(bf16_pair *to, const elem *from, int64_t stride, int64_t n, int64_t D) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t p = 0; p < D / 2; p++)
            to[i * half(D) + p] = pair_of(from[i * stride + 2 * p], from[i * stride + 2 * p + 1]);
        if (D % 2) to[i * half(D) + D / 2] = pair_at(from + i * stride, D / 2, D);
    }
}

/* to (D/2, n) */
static void pack_columns(bf16_pair *to, const elem *from, int64_t stride, int64_t n, int64_t D) {
    for (int64_t i = 0; i < n; i += DOT_LANES)
        for (int64_t p = 0; p < D / 2; p += DOT_LANES) {
            dot_vec square[DOT_LANES];
            for (int l = 0; l < DOT_LANES; l++)
                square[l] = (dot_vec)_mm512_maskz_loadu_epi32(i + l < n ? first_lanes(D / 2 - p) : 0,
                                                              from + (i + l) * stride + 2 * p);
            store_transposed(to, square, n, D / 2, i, p);
        }
    for (int64_t i = 0; i < n && D % 2; i++) to[D / 2 * n + i] = pair_at(from + i * stride, D / 2, D);
}

/* to (n/2, D) */
static void pack_pairs(bf16_pair *to, const elem *from, int64_t stride, int64_t n, int64_t D) {
    for (int64_t i = 0; i + 1 < n; i += 2)
        for (int64_t d = 0; d < D; d++) to[i / 2 * D + d] = pair_of(from[i * stride + d], from[(i + 1) * stride + d]);
    for (int64_t d = 0; d < D && n % 2; d++) to[n / 2 * D + d] = from[(n - 1) * stride + d];
}

/* s (nq,nk) = scale q k^T for queries from t0 on and keys from j0 on; -infinity where a query does not see a key. */
static void scores(const struct pair_head *x, real *s, const bf16_pair *q, const bf16_pair *k_columns, int64_t t0,
                   int64_t nq, int64_t j0, int64_t nk) {
    real scale = (real)x->pair->scale;
    clear(s, nq * nk);
    tile_dot_add(s, nq, nk, half(x->pair->D), q, k_columns);
    for (int64_t i = 0; i < nq * nk; i++) s[i] *= scale;
    cap_scores(x->pair, s, nq * nk);
    add_bias(x, s, t0, nq, j0, nk);
    hide_keys(x, s, t0, nq, j0, nk);
}

/* ---- forward ---- */

/* For the sequence: columns of keys, tile after tile, and pairs of values. For a tile of queries: all other arrays. */
struct forward { bf16_pair *k_columns, *v_pairs, *q, *p; real *y, *s, *max, *sum; };

static struct forward forward_scratch(struct scratch *x, int64_t Tq, int64_t Tk, int64_t D) {
    int64_t tile = min64(TILE, Tq), keys = min64(TILE, Tk), D2 = half(D);
    struct forward w;
    w.k_columns = take(x, lines(Tk * D2));
    w.v_pairs = take(x, lines(half(Tk) * D));
    w.q = take(x, lines(tile * D2));
    w.p = take(x, lines(tile * half(keys)));
    w.y = take(x, lines(tile * D));
    w.s = take(x, lines(tile * keys));
    w.max = take(x, lines(tile));
    w.sum = take(x, lines(tile));
    return w;
}

static void load_keys(const struct pair_head *x, const struct forward *w) {
    int64_t Tk = x->pair->Tk, D = x->pair->D, row = x->pair->k.row;
    for (int64_t j0 = 0; j0 < Tk; j0 += TILE)
        pack_columns(w->k_columns + j0 * half(D), x->k + j0 * row, row, min64(TILE, Tk - j0), D);
    pack_pairs(w->v_pairs, x->v, x->pair->v.row, Tk, D);
}

static void forward_keys(const struct pair_head *x, const struct forward *w, int64_t t0, int64_t nq, int64_t j0) {
    int64_t D = x->pair->D, nk = min64(TILE, x->pair->Tk - j0);
    scores(x, w->s, w->q, w->k_columns + j0 * half(D), t0, nq, j0, nk);
    soften(w->s, nq, nk, w->max, w->sum, w->y, D);
    if (x->pair->dropout.on)
        for (int64_t i = 0; i < nq; i++) apply_dropout(x, w->s + i * nk, t0 + i, j0, nk);
    for (int64_t i = 0; i < nq; i++) pairs_of_row(w->p + i * half(nk), w->s + i * nk, nk);
    tile_dot_add(w->y, nq, D, half(nk), w->p, w->v_pairs + j0 / 2 * D);
}

static void forward_head(const struct pair_head *x, const struct forward *w) {
    const struct attention_pair *p = x->pair;
    if (is_first_of_keys(x)) load_keys(x, w);
    for (int64_t t0 = 0; t0 < p->Tq; t0 += TILE) {
        int64_t nq = min64(TILE, p->Tq - t0);
        pack_rows(w->q, x->q + t0 * p->q.row, p->q.row, nq, p->D);
        clear(w->y, nq * p->D);
        clear(w->sum, lines(nq));
        start_queries(x, w->max, w->sum, nq);
        for (int64_t j0 = first_key(p, t0); j0 < end_of_keys(p, t0); j0 += TILE) forward_keys(x, w, t0, nq, j0);
        finish_queries(x, w->y, w->max, w->sum, t0, nq);
    }
}

static void run_forward(const struct pair_head *x, struct scratch scratch) {
    struct forward w = forward_scratch(&scratch, x->pair->Tq, x->pair->Tk, x->pair->D);
    forward_head(x, &w);
}

enum status CPU(attention_dots_forward)(const struct attention_pair *p) {
    spread_bias(p);
    each_head(p, CPU(attention_dots_reals)(p, false), run_forward);
    return OK;
}

/* ---- backward ---- */

/* For the sequence: q and dy as rows and as pairs, delta, lse, dq. For a tile of keys: k and v as columns, k as pairs,
 * dk, dv. For a tile of scores: p and ds; p^T and ds^T as left factors, (keys, pairs of queries); ds as rows. */
struct backward {
    bf16_pair *q_rows, *dy_rows, *q_pairs, *dy_pairs, *k_columns, *v_columns, *k_pairs, *p_columns, *ds_columns,
        *ds_rows;
    real *dq, *delta, *lse, *dk, *dv, *p, *ds;
};

static struct backward backward_scratch(struct scratch *x, int64_t Tq, int64_t Tk, int64_t D, int64_t shared_by) {
    int64_t sums = shared_by > 1 ? Tk : min64(TILE, Tk);             /* several heads add to all of dk and dv */
    int64_t tile = min64(TILE, Tq), keys = min64(TILE, Tk), D2 = half(D), rows = Tq * D2, pairs = half(Tq) * D;
    struct backward w;
    w.q_rows = take(x, lines(rows));
    w.dy_rows = take(x, lines(rows));
    w.q_pairs = take(x, lines(pairs));
    w.dy_pairs = take(x, lines(pairs));
    w.delta = take(x, lines(Tq));
    w.lse = take(x, lines(Tq));
    w.k_columns = take(x, lines(D2 * keys));
    w.v_columns = take(x, lines(D2 * keys));
    w.k_pairs = take(x, lines(half(keys) * D));
    w.dk = take(x, lines(sums * D));
    w.dv = take(x, lines(sums * D));
    w.p = take(x, lines(tile * keys));
    w.ds = take(x, lines(tile * keys));
    w.p_columns = take(x, lines(keys * half(tile)));
    w.ds_columns = take(x, lines(keys * half(tile)));
    w.ds_rows = take(x, lines(tile * half(keys)));
    w.dq = take(x, lines(Tq * D));
    return w;
}

int64_t CPU(attention_dots_reals)(const struct attention_pair *p, bool backward) {
    struct scratch x = {NULL, 0};
    if (backward) backward_scratch(&x, p->Tq, p->Tk, p->D, p->shared_by);
    else forward_scratch(&x, p->Tq, p->Tk, p->D);
    return x.n;
}

/* Offset of the tile of keys at j0 in dk and dv. */
static int64_t sums_at(const struct pair_head *x, int64_t j0) { return x->pair->shared_by > 1 ? j0 * x->pair->D : 0; }

static void load_queries(const struct pair_head *x, const struct backward *w) {
    const struct attention_pair *p = x->pair;
    pack_rows(w->q_rows, x->q, p->q.row, p->Tq, p->D);
    pack_rows(w->dy_rows, x->dy, p->dy.row, p->Tq, p->D);
    pack_pairs(w->q_pairs, x->q, p->q.row, p->Tq, p->D);
    pack_pairs(w->dy_pairs, x->dy, p->dy.row, p->Tq, p->D);
    load_statistics(x, w->lse, w->delta);
}

/* p and ds from scores and dy v^T, rounded, in the packings that the products read. */
static void gradients_of_scores(const struct pair_head *x, const struct backward *w, int64_t t0, int64_t nq, int64_t j0,
                                int64_t nk) {
    for (int64_t i = 0; i < nq; i++) {
        score_gradient(x, w->p + i * nk, w->ds + i * nk, w->lse[t0 + i], w->delta[t0 + i], t0 + i, j0, nk);
        pairs_of_row(w->ds_rows + i * half(nk), w->ds + i * nk, nk);
    }
    pairs_of_columns(w->p_columns, w->p, nq, nk);
    pairs_of_columns(w->ds_columns, w->ds, nq, nk);
}

/* Add the share of the tile of queries at t0 and the tile of keys at j0 to dk, dv and dq. */
static void backward_tile(const struct pair_head *x, const struct backward *w, int64_t t0, int64_t nq, int64_t j0,
                          int64_t nk) {
    int64_t D = x->pair->D, D2 = half(D), sums = sums_at(x, j0);
    scores(x, w->p, w->q_rows + t0 * D2, w->k_columns, t0, nq, j0, nk);
    clear(w->ds, nq * nk);
    tile_dot_add(w->ds, nq, nk, D2, w->dy_rows + t0 * D2, w->v_columns);
    gradients_of_scores(x, w, t0, nq, j0, nk);
    tile_dot_add(w->dv + sums, nk, D, half(nq), w->p_columns, w->dy_pairs + t0 / 2 * D);
    tile_dot_add(w->dk + sums, nk, D, half(nq), w->ds_columns, w->q_pairs + t0 / 2 * D);
    tile_dot_add(w->dq + t0 * D, nq, D, half(nk), w->ds_rows, w->k_pairs);
}

static void backward_keys(const struct pair_head *x, const struct backward *w, int64_t j0) {
    const struct attention_pair *p = x->pair;
    const elem *k = x->k + j0 * p->k.row, *v = x->v + j0 * p->v.row;
    int64_t D = p->D, nk = min64(TILE, p->Tk - j0);
    real *dk = w->dk + sums_at(x, j0), *dv = w->dv + sums_at(x, j0);
    pack_columns(w->k_columns, k, p->k.row, nk, D);
    pack_columns(w->v_columns, v, p->v.row, nk, D);
    pack_pairs(w->k_pairs, k, p->k.row, nk, D);
    if (is_first_of_keys(x)) clear(dk, nk * D), clear(dv, nk * D);
    for (int64_t t0 = first_query(p, j0); t0 < end_of_queries(p, j0); t0 += TILE)
        backward_tile(x, w, t0, min64(TILE, p->Tq - t0), j0, nk);
    if (!is_last_of_keys(x)) return;
    store_gradients(x, &p->dk, j0, nk, dk, (real)p->scale);
    store_gradients(x, &p->dv, j0, nk, dv, 1);
}

static void backward_head(const struct pair_head *x, const struct backward *w) {
    clear(w->dq, lines(x->pair->Tq * x->pair->D));
    load_queries(x, w);
    for (int64_t j0 = 0; j0 < x->pair->Tk; j0 += TILE) backward_keys(x, w, j0);
    store_gradients(x, &x->pair->dq, 0, x->pair->Tq, w->dq, (real)x->pair->scale);
}

static void run_backward(const struct pair_head *x, struct scratch scratch) {
    struct backward w = backward_scratch(&scratch, x->pair->Tq, x->pair->Tk, x->pair->D, x->pair->shared_by);
    backward_head(x, &w);
}

enum status CPU(attention_dots_backward)(const struct attention_pair *p) {
    spread_bias(p);
    each_head(p, CPU(attention_dots_reals)(p, true), run_backward);
    gather_bias(p);
    add_sink_gradients(p);
    return OK;
}

#endif
