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
flash_forward_warp_per_four_queries(struct attention a, elem *y, real *lse, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(&a, TILE));
    int64_t t0 = block_tile_from_end(&a, TILE), T = a.s.T;
    int D = (int)a.s.D;
    real *q = shared, *k = q + TILE * ld, *v = k + TILE * ld, *p = v + TILE * ld + first_row() * TILE,
         *m = p + TILE * TILE;
    real s[ROWS], o[ROWS][CHUNKS], factor[ROWS];
    struct softmax run;
    softmax_start(&run);
    tile_clear(o);
    tile_load(q, ld, a.q + head.q, a.s.row, t0, T, D);
    for (int64_t j0 = 0; j0 <= t0; j0 += TILE) {
        __syncthreads();   /* the last tile of keys has been used */
        tile_load(k, ld, a.k + head.key, a.s.key_row, j0, T, D);
        tile_load(v, ld, a.v + head.key, a.s.key_row, j0, T, D);
        __syncthreads();
        tile_scores(s, q, k, ld, &a, t0, j0);
        softmax_add(&run, s, factor);
        tile_scale(o, factor);
        if (a.dropout.on) tile_draw(m, &a, &head, t0, j0);
        for (int r = 0; r < ROWS; r++) p[r * TILE + lane()] = a.dropout.on ? m[r * TILE + lane()] * s[r] : s[r];
        __syncwarp();
        tile_add_products(o, p, v, ld, D);
    }
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r;
        factor[r] = 1 / run.sum[r];
        if (t < T && lane() == 0) lse[head.stat + t] = run.max[r] + log(run.sum[r]);
    }
    tile_scale(o, factor);
    tile_store(y + head.y, head.y_row, t0, T, D, o, 1, false);
}

extern "C" enum status CUDA(attention_flash_forward)(const struct call *call) {
    struct attention a = attention_of(call);
    size_t bytes = tile_shared(&a, 3, 2);
    GPU_ALLOW_SHARED(flash_forward_warp_per_four_queries, bytes);
    LAUNCH(flash_forward_warp_per_four_queries, tile_blocks(&a, TILE), THREADS, bytes, stream_of(call))
    (a, (elem *)call->out[0].data, (real *)call->out[1].data, tile_ld(&a));
    return gpu_launched("flash_forward_warp_per_four_queries");
}

/* ---- backward ---- */

/* Rows are keys, columns queries: lane l has query t0 + l, with four keys that are one Philox block. */
__global__ static void __launch_bounds__(THREADS, TILE_BLOCKS)
flash_backward_warp_per_four_keys(struct attention a, const elem *dy, const real *lse, const real *delta, int ld) {
    SHARED_DYNAMIC(real, shared);
    int64_t first_head = block_head(&a, TILE) * a.shared_by;
    struct head head = head_of(&a, first_head);
    int64_t j0 = block_tile(&a, TILE), T = a.s.T;
    int D = (int)a.s.D;
    real *k = shared, *v = k + TILE * ld, *q = v + TILE * ld, *g = q + TILE * ld;   /* g: dy */
    real *p = g + TILE * ld + first_row() * TILE, *ds = p + TILE * TILE;
    real s[ROWS], dp[ROWS], m[ROWS], dk[ROWS][CHUNKS], dv[ROWS][CHUNKS];
    tile_clear(dk);
    tile_clear(dv);
    tile_load(k, ld, a.k + head.key, a.s.key_row, j0, T, D);
    tile_load(v, ld, a.v + head.key, a.s.key_row, j0, T, D);
    for (int i = 0; i < a.shared_by; i++) {
        head = head_of(&a, first_head + i);
        for (int64_t t0 = j0; t0 < T; t0 += TILE) {
            __syncthreads();
            tile_load(q, ld, a.q + head.q, a.s.row, t0, T, D);
            tile_load(g, ld, dy + head.y, head.y_row, t0, T, D);
            __syncthreads();
            int64_t t = t0 + lane(), j = j0 + first_row();
            real lse_t = t < T ? lse[head.stat + t] : (real)0, delta_t = t < T ? delta[head.stat + t] : (real)0;
            tile_dots(s, k, q, ld, D);
            tile_dots(dp, v, g, ld, D);
            draw_four(m, &a, &head, t, j);
            for (int r = 0; r < ROWS; r++) {
                real probability = j + r <= t && t < T ? exp((real)a.s.scale * s[r] - lse_t) : (real)0;
                p[r * TILE + lane()] = m[r] * probability;
                ds[r * TILE + lane()] = probability * (m[r] * dp[r] - delta_t);
            }
            __syncwarp();
            tile_add_products(dv, p, g, ld, D);
            tile_add_products(dk, ds, q, ld, D);
        }
    }
    tile_store(a.dk + head.key, a.s.key_row, j0, T, D, dk, (real)a.s.scale, a.add_keys);
    tile_store(a.dv + head.key, a.s.key_row, j0, T, D, dv, 1, a.add_keys);
}

/* Rows are queries, columns keys. */
__global__ static void __launch_bounds__(THREADS, TILE_BLOCKS)
flash_backward_warp_per_four_queries(struct attention a, const elem *dy, const real *lse, const real *delta, int ld) {
    SHARED_DYNAMIC(real, shared);
    struct head head = head_of(&a, block_head(&a, TILE));
    int64_t t0 = block_tile_from_end(&a, TILE), T = a.s.T;
    int D = (int)a.s.D;
    real *q = shared, *g = q + TILE * ld, *k = g + TILE * ld, *v = k + TILE * ld;
    real *ds = v + TILE * ld + first_row() * TILE, *m = ds + TILE * TILE;
    real s[ROWS], dp[ROWS], dq[ROWS][CHUNKS], lse_t[ROWS], delta_t[ROWS];
    for (int r = 0; r < ROWS; r++) {
        int64_t t = t0 + first_row() + r;
        lse_t[r] = t < T ? lse[head.stat + t] : (real)0;
        delta_t[r] = t < T ? delta[head.stat + t] : (real)0;
    }
    tile_clear(dq);
    tile_load(q, ld, a.q + head.q, a.s.row, t0, T, D);
    tile_load(g, ld, dy + head.y, head.y_row, t0, T, D);
    for (int64_t j0 = 0; j0 <= t0; j0 += TILE) {
        __syncthreads();
        tile_load(k, ld, a.k + head.key, a.s.key_row, j0, T, D);
        tile_load(v, ld, a.v + head.key, a.s.key_row, j0, T, D);
        __syncthreads();
        tile_dots(s, q, k, ld, D);
        tile_dots(dp, g, v, ld, D);
        if (a.dropout.on) tile_draw(m, &a, &head, t0, j0);
        for (int r = 0; r < ROWS; r++) {
            bool seen = j0 + lane() <= t0 + first_row() + r && t0 + first_row() + r < T;
            real probability = seen ? exp((real)a.s.scale * s[r] - lse_t[r]) : (real)0;
            real kept = a.dropout.on ? m[r * TILE + lane()] * dp[r] : dp[r];
            ds[r * TILE + lane()] = probability * (kept - delta_t[r]);
        }
        __syncwarp();
        tile_add_products(dq, ds, k, ld, D);
    }
    tile_store(a.dq + head.q, a.s.row, t0, T, D, dq, (real)a.s.scale, a.add_queries);
}

extern "C" enum status CUDA(attention_flash_backward)(const struct call *call, const real *delta) {
    struct attention a = attention_of(call);
    size_t bytes = tile_shared(&a, 4, 2);
    const elem *dy = (const elem *)call->dout[0].data;
    const real *lse = (const real *)call->out[1].data;
    GPU_ALLOW_SHARED(flash_backward_warp_per_four_keys, bytes);
    LAUNCH(flash_backward_warp_per_four_keys, key_tile_blocks(&a, TILE), THREADS, bytes, stream_of(call))
    (a, dy, lse, delta, tile_ld(&a));
    TRY(gpu_launched("flash_backward_warp_per_four_keys"));
    GPU_ALLOW_SHARED(flash_backward_warp_per_four_queries, bytes);
    LAUNCH(flash_backward_warp_per_four_queries, tile_blocks(&a, TILE), THREADS, bytes, stream_of(call))
    (a, dy, lse, delta, tile_ld(&a));
    return gpu_launched("flash_backward_warp_per_four_queries");
}
#endif
