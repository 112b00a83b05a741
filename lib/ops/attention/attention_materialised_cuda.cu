/* Attention as its formulas stand. Forward saves the probabilities p (B,H,T,T) for backward, and their dropout, if the
 * step stores it. See attention.h; attention_tile_cuda.h for each thread's part of a tile.
 *
 * This is the teaching form. It has tiles only so that neighboring threads read neighboring addresses. Scores are
 * computed twice, once for the maximum and the sum of a row, once for p. Only what the step saves is stored, and delta
 * (B,H,T) in backward. */
#include "lib/ops/attention/attention_tile_cuda.h"

extern "C" { kernel CUDA(attention_materialised_forward), CUDA(attention_materialised_backward_input); }

/* The saved arrays, (B,H,T,T) each. mask and dropped are NULL where dropout is drawn again. */
struct saved { elem *p; uint8_t *mask; elem *dropped; };

static struct saved saved_of(const struct call *call) {
    uint8_t *mask = dropout_mask(call);
    struct saved saved = {(elem *)call->out[1].data, mask, mask ? (elem *)call->out[3].data : NULL};
    return saved;
}

/* Index of row t of a head in each of the saved arrays. */
__device__ static inline int64_t saved_row(const struct attention *a, const struct head *head, int64_t t) {
    return ((head->b * a->p.H + head->h) * a->p.Tq + t) * a->p.Tk;
}

/* m p from the p that was saved, and rounded, so that a recomputed m p equals a stored one. */
__device__ static inline elem dropped_of(real m, elem p) { return store(m * load(p)); }

/* ---- forward ---- */

/* Save the tile's part of all saved arrays. In the end all T columns are written, as the plan counts them. */
__device__ static void save_tile(const struct saved *saved, const real p[ROWS], const real m[ROWS], int64_t t0,
                                 int64_t j, const struct attention *a, const struct head *head) {
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r, at = saved_row(a, head, t) + j;
        if (t >= a->p.Tq || j >= a->p.Tq) continue;
        elem rounded = store(p[r]);
        saved->p[at] = rounded;
        if (!saved->mask) continue;
        saved->mask[at] = m[r] != 0;
        saved->dropped[at] = dropped_of(m[r], rounded);
    }
}

template <bool WIDE, bool VIEW>
__global__ static void __launch_bounds__(THREADS, BLOCKS_OF<WIDE>)
materialised_forward_warp_per_four_queries(struct attention a, struct saved saved, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), T = a.p.Tq;
    int D = (int)a.p.D;
    const struct tile q = tile_of(shared, ld, D, head.q, a.p.q.row, T, t0);
    struct tile k = tile_of(tile_end(q), ld, D, head.k, a.p.k.row, T, 0),
                v = tile_of(tile_end(k), ld, D, head.v, a.p.v.row, T, 0);
    real *w = tile_end(v) + first_row() * TILE, *drawn = w + TILE * TILE;
    real s[ROWS], m[ROWS], o[ROWS][CHUNKS_OF<WIDE>];
    struct softmax run;
    softmax_start(&run, -(real)INFINITY);
    tile_load<WIDE>(q);
    int64_t begin = first_key<VIEW>(&a, t0, TILE), end = end_of_keys(&a, t0 + TILE);
    for (int64_t j0 = begin; j0 < end; j0 += TILE) {
        k.t0 = (int)j0;
        tile_load_next<WIDE>(k);
        tile_scores<WIDE, VIEW>(s, q, k, &a);
        softmax_add<VIEW>(&run, s, m);
    }
    tile_clear(o);
    for (int64_t j0 = 0; j0 < T; j0 += TILE) {
        for (int r = 0; r < ROWS; r++) s[r] = 0;   /* p is 0 where no query of the tile sees the key */
        bool seen = j0 >= begin && j0 < end;   /* the same for the whole block */
        if (seen) {
            k.t0 = v.t0 = (int)j0;
            tile_load_next<WIDE>(k, v);
            tile_scores<WIDE, VIEW>(s, q, k, &a);
            for (int r = 0; r < ROWS; r++) s[r] = exp(s[r] - run.max[r]) / run.sum[r];
        }
        tile_draw(drawn, &a, &head, t0, j0);
        for (int r = 0; r < ROWS; r++) {
            m[r] = drawn[r * TILE + lane()];
            w[r * TILE + lane()] = m[r] * s[r];
        }
        tile_squares_are_written<WIDE>();
        save_tile(&saved, s, m, t0, j0 + lane(), &a, &head);
        if (seen) tile_add_products<WIDE>(o, w, v);
    }
    tile_store(head.y, a.p.y.row, t0, T, D, o);
}

template <bool WIDE, bool VIEW> static enum status launch_forward(const struct call *call, const struct attention *a) {
    const auto forward = materialised_forward_warp_per_four_queries<WIDE, VIEW>;
    size_t bytes = tile_shared(a, 3, 2);
    GPU_ALLOW_SHARED(forward, bytes);
    return LAUNCHED(forward, query_blocks(a, TILE), THREADS, bytes, stream_of(call), *a, saved_of(call), tile_ld(a));
}

enum status CUDA(attention_materialised_forward)(const struct call *call) {
    struct attention_pair pair = attention_pair_of(call);
    struct attention a = attention_of_pair(&pair, NULL);
    return TILE_FOR_PAIR(&a, launch_forward, call, &a);
}

/* ---- backward ---- */

/* p, m and the rounded m p of the warp's four queries and key j = j0 + lane; zero where there is no such pair. `drawn`
 * may be used again after the next barrier. */
struct pairs { real p[ROWS], m[ROWS], dropped[ROWS]; };

template <bool VIEW>
__device__ static void load_pairs(struct pairs *x, const struct saved *saved, real *drawn, int64_t t0, int64_t j0,
                                  const struct attention *a, const struct head *head) {
    bool stored = a->p.dropout.on && saved->mask;
    if (!stored) tile_draw(drawn, a, head, t0, j0);   /* the same for the whole block */
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r, j = j0 + lane(), at = saved_row(a, head, t) + j;
        x->p[r] = x->m[r] = x->dropped[r] = 0;
        if (t >= a->p.Tq || !sees<VIEW>(a, t, j)) continue;
        x->p[r] = load(saved->p[at]);
        x->m[r] = stored ? saved->mask[at] * (real)a->p.dropout.scale : drawn[r * TILE + lane()];
        x->dropped[r] = load(saved->mask ? saved->dropped[at] : dropped_of(x->m[r], saved->p[at]));
    }
}

/* dq, and delta for the kernel below. Rows are queries, columns keys. First delta[t] = sum_j p m dy[t] . v[j], then
 * ds = p (m dy[t] . v[j] - delta[t]). */
template <bool WIDE, bool VIEW>
__global__ static void __launch_bounds__(THREADS, BLOCKS_OF<WIDE>)
    materialised_backward_warp_per_four_queries(struct attention a, real *delta, struct saved saved, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), T = a.p.Tq;
    int D = (int)a.p.D;
    const struct tile g = tile_of(shared, ld, D, head.dy, a.p.dy.row, T, t0);   /* dy */
    struct tile k = tile_of(tile_end(g), ld, D, head.k, a.p.k.row, T, 0),
                v = tile_of(tile_end(k), ld, D, head.v, a.p.v.row, T, 0);
    real *ds = tile_end(v) + first_row() * TILE, *drawn = ds + TILE * TILE;
    real dp[ROWS], sum[ROWS] = {0}, dq[ROWS][CHUNKS_OF<WIDE>];
    struct pairs x;
    tile_load<WIDE>(g);
    int64_t begin = first_key<VIEW>(&a, t0, TILE), end = end_of_keys(&a, t0 + TILE);
    for (int64_t j0 = begin; j0 < end; j0 += TILE) {
        v.t0 = (int)j0;
        tile_load_next<WIDE>(v);
        tile_dots<WIDE>(dp, g, v);
        load_pairs<VIEW>(&x, &saved, drawn, t0, j0, &a, &head);
        for (int r = 0; r < ROWS; r++) sum[r] += x.p[r] * (x.m[r] * dp[r]);
    }
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r;
        sum[r] = warp_sum(sum[r]);
        if (t < T && lane() == 0) delta[(head.b * a.p.H + head.h) * T + t] = sum[r];
    }
    tile_clear(dq);
    for (int64_t j0 = begin; j0 < end; j0 += TILE) {
        k.t0 = v.t0 = (int)j0;
        tile_load_next<WIDE>(k, v);
        tile_dots<WIDE>(dp, g, v);
        load_pairs<VIEW>(&x, &saved, drawn, t0, j0, &a, &head);
        for (int r = 0; r < ROWS; r++) ds[r * TILE + lane()] = x.p[r] * (x.m[r] * dp[r] - sum[r]);
        tile_squares_are_written<WIDE>();
        tile_add_products<WIDE>(dq, ds, k);
    }
    tile_put_gradient(&a, a.p.dq, head.dq, t0, T, dq, (real)a.p.scale, a.p.add_queries);
}

/* Write x to the square `to` [query][key]. Its rows are one number longer than TILE, so that a column can be read at
 * once. */
__device__ static void put_square(real *to, const real x[ROWS]) {
    for (int r = 0; r < ROWS; r++) to[(first_row() + r) * (TILE + 1) + lane()] = x[r];
}
__device__ static real from_square(const real *square, int r) { return square[lane() * (TILE + 1) + first_row() + r]; }

/* dk and dv. Rows are keys, columns queries: saved numbers are read with lanes along the keys, and transposed in shared
 * memory. */
template <bool WIDE, bool VIEW>
__global__ static void __launch_bounds__(THREADS, BLOCKS_OF<WIDE>)
    materialised_backward_warp_per_four_keys(struct attention a, struct saved saved, int ld) {
    SHARED_DYNAMIC(real, shared);
    int64_t first_head = block_head(a.p.Tq, TILE) * a.p.shared_by;
    struct head head = head_of(&a, first_head);
    int64_t j0 = block_tile(a.p.Tq, TILE), T = a.p.Tq;
    int D = (int)a.p.D;
    const struct tile v = tile_of(shared, ld, D, head.v, a.p.v.row, T, j0);
    struct tile q = tile_of(tile_end(v), ld, D, head.q, a.p.q.row, T, 0),
                g = tile_of(tile_end(q), ld, D, head.dy, a.p.dy.row, T, 0);
    real *square_p = tile_end(g), *square_m = square_p + TILE * (TILE + 1),
         *square_dropped = square_m + TILE * (TILE + 1);
    real *w = square_dropped + TILE * (TILE + 1) + first_row() * TILE, *ds = w + TILE * TILE;
    real dp[ROWS], dk[ROWS][CHUNKS_OF<WIDE>], dv[ROWS][CHUNKS_OF<WIDE>];
    struct pairs x;
    tile_clear(dk);
    tile_clear(dv);
    tile_load<WIDE>(v);
    for (int i = 0; i < a.p.shared_by; i++) {
        head = head_of(&a, first_head + i);
        q.from = head.q, g.from = head.dy;
        for (int64_t t0 = first_query(&a, j0); t0 < end_of_queries<VIEW>(&a, j0, TILE); t0 += TILE) {
            int64_t t = t0 + lane();
            q.t0 = g.t0 = (int)t0;
            __syncthreads();
            tile_load<WIDE>(q);
            tile_load<WIDE>(g);
            load_pairs<VIEW>(&x, &saved, w, t0, j0, &a, &head);
            put_square(square_p, x.p);
            put_square(square_m, x.m);
            put_square(square_dropped, x.dropped);
            __syncthreads();
            real delta_t = t < T ? head.delta[t] : (real)0;
            tile_dots<WIDE>(dp, v, g);
            for (int r = 0; r < ROWS; r++) {
                w[r * TILE + lane()] = from_square(square_dropped, r);
                ds[r * TILE + lane()] = from_square(square_p, r) * (from_square(square_m, r) * dp[r] - delta_t);
            }
            tile_squares_are_written<WIDE>();
            tile_add_products<WIDE>(dv, w, g);
            tile_add_products<WIDE>(dk, ds, q);
        }
    }
    tile_put_gradient(&a, a.p.dk, head.dk, j0, T, dk, (real)a.p.scale, a.p.add_keys);
    tile_put_gradient(&a, a.p.dv, head.dv, j0, T, dv, 1, a.p.add_keys);
}

template <bool WIDE, bool VIEW>
static enum status launch_backward(const struct call *call, const struct attention *a, real *delta) {
    const auto backward_queries = materialised_backward_warp_per_four_queries<WIDE, VIEW>;
    const auto backward_keys = materialised_backward_warp_per_four_keys<WIDE, VIEW>;
    size_t bytes = tile_shared(a, 3, 2);
    GPU_ALLOW_SHARED(backward_queries, bytes);
    TRY(LAUNCHED(backward_queries, query_blocks(a, TILE), THREADS, bytes, stream_of(call), *a, delta, saved_of(call),
                 tile_ld(a)));
    bytes = tile_shared(a, 3, 5) + 3 * TILE * sizeof(real);
    GPU_ALLOW_SHARED(backward_keys, bytes);
    return LAUNCHED(backward_keys, key_blocks(a, TILE), THREADS, bytes, stream_of(call), *a, saved_of(call),
                    tile_ld(a));
}

enum status CUDA(attention_materialised_backward_input)(const struct call *call) {
    struct attention_pair pair = attention_pair_of(call);
    real *delta = (real *)call->work;
    struct attention a = attention_of_pair(&pair, delta);
    return TILE_FOR_PAIR(&a, launch_backward, call, &a, delta);
}
