/* Blocked causal attention in fp32 and fp64, without tensor cores: the algorithm of attention_flash_wmma_*_cuda.cu in
 * its barest form. See attention.h for the formulas, attention_tile_cuda.h for who has which part of a tile.
 *
 * Forward: a block has 32 queries and goes over the tiles of keys up to its own, with a running maximum and sum. When a
 * later tile raises the maximum from M to M', what was summed so far is multiplied by e^(M - M').
 * Backward, p again from lse, without atomics: one kernel gives a block 32 keys and goes over the queries from there
 * on, of all heads that share them, adding up dk and dv; another gives a block 32 queries and goes over the keys,
 * adding up dq. Both make the scores. */
#if defined ELEM_fp64 || defined ELEM_fp32
#include "lib/ops/attention/attention_tile_cuda.h"

/* ---- forward ---- */

__global__ static void __launch_bounds__(THREADS, TILE_BLOCKS)
flash_forward_warp_per_four_queries(struct attention a, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), Tq = a.p.Tq, Tk = a.p.Tk;
    int D = (int)a.p.D;
    real *q = shared, *k = q + TILE * ld, *v = k + TILE * ld, *p = v + TILE * ld + first_row() * TILE,
         *m = p + TILE * TILE;
    real s[ROWS], o[ROWS][CHUNKS], factor[ROWS];
    struct softmax run;
    softmax_start(&run);
    tile_clear(o);
    tile_load(q, ld, head.q, a.p.q.row, t0, Tq, D);
    for (int64_t j0 = 0; j0 < end_of_keys(&a, t0 + TILE); j0 += TILE) {
        __syncthreads();   /* the last tile of keys has been used */
        tile_load(k, ld, head.k, a.p.k.row, j0, Tk, D);
        tile_load(v, ld, head.v, a.p.v.row, j0, Tk, D);
        __syncthreads();
        tile_scores(s, q, k, ld, &a, t0, j0);
        softmax_add(&run, s, factor);
        tile_scale(o, factor);
        if (a.p.dropout.on) tile_draw(m, &a, &head, t0, j0);
        for (int r = 0; r < ROWS; r++) p[r * TILE + lane()] = a.p.dropout.on ? m[r * TILE + lane()] * s[r] : s[r];
        __syncwarp();
        tile_add_products(o, p, v, ld, D);
    }
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r;
        factor[r] = 1 / run.sum[r];
        if (t < Tq && lane() == 0) head.lse[t] = run.max[r] + log(run.sum[r]);
    }
    tile_scale(o, factor);
    tile_store(head.y, a.p.y.row, t0, Tq, D, o);
}

extern "C" enum status CUDA(attention_flash_forward)(const struct attention *a) {
    size_t bytes = tile_shared(a, 3, 2);
    GPU_ALLOW_SHARED(flash_forward_warp_per_four_queries, bytes);
    LAUNCH(flash_forward_warp_per_four_queries, query_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p))
    (*a, tile_ld(a));
    return gpu_launched("flash_forward_warp_per_four_queries");
}

/* ---- backward ---- */

/* Rows are keys, columns queries: lane l has query t0 + l, with four keys that are one Philox block. */
__global__ static void __launch_bounds__(THREADS, TILE_BLOCKS)
flash_backward_warp_per_four_keys(struct attention a, int ld) {
    SHARED_DYNAMIC(real, shared);
    int64_t first_head = block_head(a.p.Tk, TILE) * a.p.shared_by;
    struct head head = head_of(&a, first_head);
    int64_t j0 = block_tile(a.p.Tk, TILE), Tq = a.p.Tq, Tk = a.p.Tk;
    int D = (int)a.p.D;
    real *k = shared, *v = k + TILE * ld, *q = v + TILE * ld, *g = q + TILE * ld;   /* g: dy */
    real *p = g + TILE * ld + first_row() * TILE, *ds = p + TILE * TILE;
    real s[ROWS], dp[ROWS], m[ROWS], dk[ROWS][CHUNKS], dv[ROWS][CHUNKS];
    tile_clear(dk);
    tile_clear(dv);
    tile_load(k, ld, head.k, a.p.k.row, j0, Tk, D);
    tile_load(v, ld, head.v, a.p.v.row, j0, Tk, D);
    for (int i = 0; i < a.p.shared_by; i++) {
        head = head_of(&a, first_head + i);
        for (int64_t t0 = first_query(&a, j0); t0 < Tq; t0 += TILE) {
            __syncthreads();
            tile_load(q, ld, head.q, a.p.q.row, t0, Tq, D);
            tile_load(g, ld, head.dy, a.p.dy.row, t0, Tq, D);
            __syncthreads();
            int64_t t = t0 + lane(), j = j0 + first_row();
            real lse_t = t < Tq ? head.lse[t] : (real)0, delta_t = t < Tq ? head.delta[t] : (real)0;
            tile_dots(s, k, q, ld, D);
            tile_dots(dp, v, g, ld, D);
            draw_four(m, &a, &head, t, j);
            for (int r = 0; r < ROWS; r++) {
                real probability = sees(&a, t, j + r) && t < Tq ? exp((real)a.p.scale * s[r] - lse_t) : (real)0;
                p[r * TILE + lane()] = m[r] * probability;
                ds[r * TILE + lane()] = probability * (m[r] * dp[r] - delta_t);
            }
            __syncwarp();
            tile_add_products(dv, p, g, ld, D);
            tile_add_products(dk, ds, q, ld, D);
        }
    }
    tile_put_gradient(&a, a.p.dk, head.dk, j0, Tk, dk, (real)a.p.scale, a.p.add_keys);
    tile_put_gradient(&a, a.p.dv, head.dv, j0, Tk, dv, 1, a.p.add_keys);
}

/* Rows are queries, columns keys. */
__global__ static void __launch_bounds__(THREADS, TILE_BLOCKS)
flash_backward_warp_per_four_queries(struct attention a, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), Tq = a.p.Tq, Tk = a.p.Tk;
    int D = (int)a.p.D;
    real *q = shared, *g = q + TILE * ld, *k = g + TILE * ld, *v = k + TILE * ld;
    real *ds = v + TILE * ld + first_row() * TILE, *m = ds + TILE * TILE;
    real s[ROWS], dp[ROWS], dq[ROWS][CHUNKS], lse_t[ROWS], delta_t[ROWS];
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r;
        lse_t[r] = t < Tq ? head.lse[t] : (real)0;
        delta_t[r] = t < Tq ? head.delta[t] : (real)0;
    }
    tile_clear(dq);
    tile_load(q, ld, head.q, a.p.q.row, t0, Tq, D);
    tile_load(g, ld, head.dy, a.p.dy.row, t0, Tq, D);
    for (int64_t j0 = 0; j0 < end_of_keys(&a, t0 + TILE); j0 += TILE) {
        __syncthreads();
        tile_load(k, ld, head.k, a.p.k.row, j0, Tk, D);
        tile_load(v, ld, head.v, a.p.v.row, j0, Tk, D);
        __syncthreads();
        tile_dots(s, q, k, ld, D);
        tile_dots(dp, g, v, ld, D);
        if (a.p.dropout.on) tile_draw(m, &a, &head, t0, j0);
        for (int r = 0; r < ROWS; r++) {
            int64_t t = t0 + first_row() + r;
            real probability = sees(&a, t, j0 + lane()) && t < Tq ? exp((real)a.p.scale * s[r] - lse_t[r]) : (real)0;
            real kept = a.p.dropout.on ? m[r * TILE + lane()] * dp[r] : dp[r];
            ds[r * TILE + lane()] = probability * (kept - delta_t[r]);
        }
        __syncwarp();
        tile_add_products(dq, ds, k, ld, D);
    }
    tile_put_gradient(&a, a.p.dq, head.dq, t0, Tq, dq, (real)a.p.scale, a.p.add_queries);
}

extern "C" enum status CUDA(attention_flash_backward)(const struct attention *a) {
    size_t bytes = tile_shared(a, 4, 2);
    GPU_ALLOW_SHARED(flash_backward_warp_per_four_keys, bytes);
    LAUNCH(flash_backward_warp_per_four_keys, key_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p))(*a, tile_ld(a));
    TRY(gpu_launched("flash_backward_warp_per_four_keys"));
    GPU_ALLOW_SHARED(flash_backward_warp_per_four_queries, bytes);
    LAUNCH(flash_backward_warp_per_four_queries, query_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p))
    (*a, tile_ld(a));
    return gpu_launched("flash_backward_warp_per_four_queries");
}
#endif
