/* Causal attention forward with the online softmax of lesson 13: a block has 32 queries, and goes over the tiles of 32
 * keys up to its own.
 *
 * A warp has 4 queries. For the scores a lane is a key; for the sums over keys a lane is a channel, or two. Each query
 * keeps the largest score so far, the sum of exponentials and the sum of weighted values, all in registers: a tile with
 * a larger score scales both sums down. Rows of a tile are an odd number of words apart, so that 32 keys of one channel
 * lie in 32 banks. */
#include "lib/device/gpu.h"
#include "lessons/23-products-and-attention/flash/flash.h"

enum {
    LANES = 32, WARPS = 8, THREADS = LANES * WARPS, ROWS = 4,
    KEYS = LANES, QUERIES = WARPS * ROWS, CHUNKS = FLASH_MAX_D / LANES, LD = FLASH_MAX_D + 1, ALL = ~0
};

__device__ static float warp_sum(float v) {
    for (int bit = LANES / 2; bit > 0; bit /= 2) v += __shfl_xor_sync(ALL, v, bit);
    return v;
}
__device__ static float warp_max(float v) {
    for (int bit = LANES / 2; bit > 0; bit /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, bit));
    return v;
}

/* Rows t0 to t0 + n of x (T,D), and zeros after T and after D. */
__device__ static void load_rows(float *to, int n, const float *x, int t0, int T, int D) {
    for (int i = threadIdx.x / LANES; i < n; i += WARPS)
        for (int d = threadIdx.x % LANES; d < FLASH_MAX_D; d += LANES)
            to[i * LD + d] = t0 + i < T && d < D ? x[(size_t)(t0 + i) * D + d] : 0;
}

__global__ static void flash_tile(float *y, float *lse, const float *q, const float *k, const float *v, int T, int D,
                                  float scale) {
    __shared__ float qs[QUERIES * LD], ks[KEYS * LD], vs[KEYS * LD], ps[QUERIES * KEYS];
    int lane = threadIdx.x % LANES, first = threadIdx.x / LANES * ROWS, t0 = blockIdx.x * QUERIES;
    float most[ROWS], sum[ROWS], out[ROWS][CHUNKS] = {{0}};
    for (int r = 0; r < ROWS; r++) most[r] = -INFINITY, sum[r] = 0;
    load_rows(qs, QUERIES, q, t0, T, D);
    for (int j0 = 0; j0 < t0 + QUERIES && j0 < T; j0 += KEYS) {
        __syncthreads();                                     /* all have used the last tiles */
        load_rows(ks, KEYS, k, j0, T, D);
        load_rows(vs, KEYS, v, j0, T, D);
        __syncthreads();
        for (int r = 0; r < ROWS; r++) {
            float z = 0;
            for (int d = 0; d < D; d++) z += qs[(first + r) * LD + d] * ks[lane * LD + d];
            z = j0 + lane <= t0 + first + r ? z * scale : -INFINITY;
            float larger = fmaxf(most[r], warp_max(z)), shrink = expf(most[r] - larger), p = expf(z - larger);
            sum[r] = sum[r] * shrink + warp_sum(p);
            for (int c = 0; c < CHUNKS; c++) out[r][c] *= shrink;
            most[r] = larger;
            ps[(first + r) * KEYS + lane] = p;
        }
        __syncwarp();                                        /* the warp's own rows of ps are complete */
        for (int j = 0; j < KEYS; j++)
            for (int c = 0; c < CHUNKS; c++) {
                float x = vs[j * LD + lane + LANES * c];
                for (int r = 0; r < ROWS; r++) out[r][c] += ps[(first + r) * KEYS + j] * x;
            }
    }
    for (int r = 0; r < ROWS; r++) {
        int t = t0 + first + r;
        if (t >= T) continue;
        for (int c = 0; c < CHUNKS; c++)
            if (lane + LANES * c < D) y[(size_t)t * D + lane + LANES * c] = out[r][c] / sum[r];
        if (lane == 0) lse[t] = most[r] + logf(sum[r]);
    }
}

enum status flash(float *y, float *lse, const float *q, const float *k, const float *v, int T, int D, float scale) {
    LAUNCH(flash_tile, (T + QUERIES - 1) / QUERIES, THREADS, 0, NULL)(y, lse, q, k, v, T, D, scale);
    return OK;
}
