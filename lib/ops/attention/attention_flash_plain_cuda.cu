/* Blocked causal attention in fp32 and fp64, without tensor cores: the algorithm of attention_flash_wmma_*_cuda.cu in
 * its simplest form. See attention.h for the formulas, attention_tile_cuda.h for each thread's part of a tile.
 *
 * Forward: a block has 32 queries and loops over the tiles of keys up to its own, with a running maximum and sum. If a
 * later tile raises the maximum from M to M', the sums so far are multiplied by e^(M - M'). Backward recomputes p
 * from lse and needs no atomics. In one kernel a block has 32 keys, loops over the later queries of all heads that
 * share these keys, and sums dk and dv. In another a block has 32 queries, loops over the keys, and sums dq. Both
 * compute the scores. */
#if defined ELEM_fp64 || defined ELEM_fp32
#include "lib/ops/attention/attention_tile_cuda.h"

/* ---- forward ---- */

template <bool WIDE, bool VIEW>
__global__ static void __launch_bounds__(THREADS, BLOCKS_OF<WIDE>)
flash_forward_warp_per_four_queries(struct attention a, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), Tq = a.p.Tq;
    int D = (int)a.p.D;
    const struct tile q = tile_of(shared, ld, D, head.q, a.p.q.row, Tq, t0);
    struct tile k = tile_of(tile_end(q), ld, D, head.k, a.p.k.row, a.p.Tk, 0),
                v = tile_of(tile_end(k), ld, D, head.v, a.p.v.row, a.p.Tk, 0);
    real *p = tile_end(v) + first_row() * TILE, *m = p + TILE * TILE;
    real s[ROWS], o[ROWS][CHUNKS_OF<WIDE>], factor[ROWS];
    struct softmax run;
    softmax_start(&run, sink_of<VIEW>(&a, &head));
    tile_clear(o);
    tile_load<WIDE>(q);
    for (int64_t j0 = first_key<VIEW>(&a, t0, TILE); j0 < end_of_keys(&a, t0 + TILE); j0 += TILE) {
        k.t0 = v.t0 = (int)j0;
        tile_load_next<WIDE>(k, v);
        tile_scores<WIDE, VIEW>(s, q, k, &a);
        softmax_add<VIEW>(&run, s, factor);
        tile_scale(o, factor);
        if (a.p.dropout.on) tile_draw(m, &a, &head, t0, j0);
        for (int r = 0; r < ROWS; r++) p[r * TILE + lane()] = a.p.dropout.on ? m[r * TILE + lane()] * s[r] : s[r];
        tile_squares_are_written<WIDE>();
        tile_add_products<WIDE>(o, p, v);
    }
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r;
        factor[r] = one_over<VIEW>(run.sum[r]);
        if (t < Tq && lane() == 0) head.lse[t] = run.max[r] + log(run.sum[r]);
    }
    tile_scale(o, factor);
    tile_store(head.y, a.p.y.row, t0, Tq, D, o);
}

template <bool WIDE, bool VIEW> static enum status launch_forward(const struct attention *a) {
    const auto flash_forward = flash_forward_warp_per_four_queries<WIDE, VIEW>;
    size_t bytes = tile_shared(a, 3, 2);
    GPU_ALLOW_SHARED(flash_forward, bytes);
    return LAUNCHED(flash_forward, query_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p), *a, tile_ld(a));
}

extern "C" enum status CUDA(attention_flash_forward)(const struct attention *a) {
    return TILE_FOR_PAIR(a, launch_forward, a);
}

/* ---- backward ---- */

/* Rows are keys, columns queries: lane l has query t0 + l, with four keys that are one Philox block. */
template <bool WIDE, bool VIEW>
__global__ static void __launch_bounds__(THREADS, BLOCKS_OF<WIDE>)
flash_backward_warp_per_four_keys(struct attention a, int ld) {
    SHARED_DYNAMIC(real, shared);
    int64_t first_head = block_head(a.p.Tk, TILE) * a.p.shared_by;
    struct head head = head_of(&a, first_head);
    int64_t j0 = block_tile(a.p.Tk, TILE), Tq = a.p.Tq, Tk = a.p.Tk;
    int D = (int)a.p.D;
    const struct tile k = tile_of(shared, ld, D, head.k, a.p.k.row, Tk, j0),
                      v = tile_of(tile_end(k), ld, D, head.v, a.p.v.row, Tk, j0);
    struct tile q = tile_of(tile_end(v), ld, D, head.q, a.p.q.row, Tq, 0),
                g = tile_of(tile_end(q), ld, D, head.dy, a.p.dy.row, Tq, 0);   /* dy */
    real *p = tile_end(g) + first_row() * TILE, *ds = p + TILE * TILE;
    real s[ROWS], dp[ROWS], m[ROWS], dk[ROWS][CHUNKS_OF<WIDE>], dv[ROWS][CHUNKS_OF<WIDE>];
    tile_clear(dk);
    tile_clear(dv);
    tile_load<WIDE>(k);
    tile_load<WIDE>(v);
    for (int i = 0; i < a.p.shared_by; i++) {
        head = head_of(&a, first_head + i);
        q.from = head.q, g.from = head.dy;
        for (int64_t t0 = first_query(&a, j0); t0 < end_of_queries<VIEW>(&a, j0, TILE); t0 += TILE) {
            q.t0 = g.t0 = (int)t0;
            tile_load_next<WIDE>(q, g);
            int64_t t = t0 + lane(), j = j0 + first_row();
            real lse_t = t < Tq ? head.lse[t] : (real)0, delta_t = t < Tq ? head.delta[t] : (real)0;
            tile_dots<WIDE>(s, k, q);
            tile_dots<WIDE>(dp, v, g);
            draw_four(m, &a, &head, t, j);
            for (int r = 0; r < ROWS; r++) {
                real score = capped<VIEW>(&a, (real)a.p.scale * s[r]);
                real probability = sees<VIEW>(&a, t, j + r) && t < Tq ? exp(score - lse_t) : (real)0;
                p[r * TILE + lane()] = m[r] * probability;
                ds[r * TILE + lane()] = probability * (m[r] * dp[r] - delta_t) * cap_slope<VIEW>(&a, score);
            }
            tile_squares_are_written<WIDE>();
            tile_add_products<WIDE>(dv, p, g);
            tile_add_products<WIDE>(dk, ds, q);
        }
    }
    tile_put_gradient(&a, a.p.dk, head.dk, j0, Tk, dk, (real)a.p.scale, a.p.add_keys);
    tile_put_gradient(&a, a.p.dv, head.dv, j0, Tk, dv, 1, a.p.add_keys);
}

/* Rows are queries, columns keys. */
template <bool WIDE, bool VIEW>
__global__ static void __launch_bounds__(THREADS, BLOCKS_OF<WIDE>)
flash_backward_warp_per_four_queries(struct attention a, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), Tq = a.p.Tq;
    int D = (int)a.p.D;
    const struct tile q = tile_of(shared, ld, D, head.q, a.p.q.row, Tq, t0),
                      g = tile_of(tile_end(q), ld, D, head.dy, a.p.dy.row, Tq, t0);
    struct tile k = tile_of(tile_end(g), ld, D, head.k, a.p.k.row, a.p.Tk, 0),
                v = tile_of(tile_end(k), ld, D, head.v, a.p.v.row, a.p.Tk, 0);
    real *ds = tile_end(v) + first_row() * TILE, *m = ds + TILE * TILE;
    real s[ROWS], dp[ROWS], dq[ROWS][CHUNKS_OF<WIDE>], lse_t[ROWS], delta_t[ROWS];
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r;
        lse_t[r] = t < Tq ? head.lse[t] : (real)0;
        delta_t[r] = t < Tq ? head.delta[t] : (real)0;
    }
    tile_clear(dq);
    tile_load<WIDE>(q);
    tile_load<WIDE>(g);
    for (int64_t j0 = first_key<VIEW>(&a, t0, TILE); j0 < end_of_keys(&a, t0 + TILE); j0 += TILE) {
        k.t0 = v.t0 = (int)j0;
        tile_load_next<WIDE>(k, v);
        tile_dots<WIDE>(s, q, k);
        tile_dots<WIDE>(dp, g, v);
        if (a.p.dropout.on) tile_draw(m, &a, &head, t0, j0);
        for (int r = 0; r < ROWS; r++) {
            int64_t t = t0 + first_row() + r;
            real score = capped<VIEW>(&a, (real)a.p.scale * s[r]);
            real probability = sees<VIEW>(&a, t, j0 + lane()) && t < Tq ? exp(score - lse_t[r]) : (real)0;
            real kept = a.p.dropout.on ? m[r * TILE + lane()] * dp[r] : dp[r];
            ds[r * TILE + lane()] = probability * (kept - delta_t[r]) * cap_slope<VIEW>(&a, score);
        }
        tile_squares_are_written<WIDE>();
        tile_add_products<WIDE>(dq, ds, k);
    }
    tile_put_gradient(&a, a.p.dq, head.dq, t0, Tq, dq, (real)a.p.scale, a.p.add_queries);
}

template <bool WIDE, bool VIEW> static enum status launch_backward(const struct attention *a) {
    const auto backward_keys = flash_backward_warp_per_four_keys<WIDE, VIEW>;
    const auto backward_queries = flash_backward_warp_per_four_queries<WIDE, VIEW>;
    size_t bytes = tile_shared(a, 4, 2);
    GPU_ALLOW_SHARED(backward_keys, bytes);
    TRY(LAUNCHED(backward_keys, key_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p), *a, tile_ld(a)));
    GPU_ALLOW_SHARED(backward_queries, bytes);
    return LAUNCHED(backward_queries, query_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p), *a, tile_ld(a));
}

extern "C" enum status CUDA(attention_flash_backward)(const struct attention *a) {
    return TILE_FOR_PAIR(a, launch_backward, a);
}
#endif
