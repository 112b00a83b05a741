/* Softmax over rows: a block per row.
 *
 * The kernel is bound by memory, with at least 8 bytes per number. Thread t holds columns t, t + THREADS, ..., so that
 * neighboring threads read neighboring columns for any C, aligned or not. Rows of up to THREADS x KEPT columns stay in
 * registers, and x is read once. A longer row is read three times: for the maximum, for the sum, for y. The second and
 * third reads are from a cache if the row fits. */
#include "lib/device/gpu.h"
#include "lessons/11-a-cuda-kernel/softmax/softmax_rows.h"

enum { LANES = 32, THREADS = 128, WARPS = THREADS / LANES, KEPT = 8, ALL = ~0 };

struct biggest { __device__ static float of(float a, float b) { return a > b ? a : b; } };
struct total { __device__ static float of(float a, float b) { return a + b; } };

/* Combine one value per thread over the block, and return the result to every thread. Combine::of: maximum or sum. */
template <class Combine> __device__ static float of_warp(float v) {
    for (int bit = LANES / 2; bit > 0; bit /= 2) v = Combine::of(v, __shfl_xor_sync(ALL, v, bit));
    return v;
}
template <class Combine> __device__ static float of_block(float v, float *of_warps) {
    v = of_warp<Combine>(v);
    if (threadIdx.x % LANES == 0) of_warps[threadIdx.x / LANES] = v;
    __syncthreads();
    v = of_warps[0];
    for (int w = 1; w < WARPS; w++) v = Combine::of(v, of_warps[w]);
    __syncthreads();                                         /* all have read of_warps, it may be reused */
    return v;
}

__global__ static void softmax_in_registers(float *y, const float *x, int C) {
    __shared__ float of_warps[WARPS];
    const float *row = x + (size_t)blockIdx.x * C;
    float *to = y + (size_t)blockIdx.x * C, kept[KEPT], most = -INFINITY, sum = 0;
    int t = threadIdx.x;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        kept[k] = t + k * THREADS < C ? row[t + k * THREADS] : -INFINITY;
        most = biggest::of(most, kept[k]);
    }
    most = of_block<biggest>(most, of_warps);
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        kept[k] = expf(kept[k] - most);                      /* a missing column has -infinity, and adds 0 */
        sum += kept[k];
    }
    float scale = 1 / of_block<total>(sum, of_warps);
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (t + k * THREADS < C) to[t + k * THREADS] = kept[k] * scale;
}

__global__ static void softmax_reread(float *y, const float *x, int C) {
    __shared__ float of_warps[WARPS];
    const float *row = x + (size_t)blockIdx.x * C;
    float *to = y + (size_t)blockIdx.x * C, most = -INFINITY, sum = 0;
    for (int c = threadIdx.x; c < C; c += THREADS) most = biggest::of(most, row[c]);
    most = of_block<biggest>(most, of_warps);
    for (int c = threadIdx.x; c < C; c += THREADS) sum += expf(row[c] - most);
    float scale = 1 / of_block<total>(sum, of_warps);
    for (int c = threadIdx.x; c < C; c += THREADS) to[c] = expf(row[c] - most) * scale;
}

enum status softmax_rows(float *y, const float *x, int R, int C) {
    if (C <= THREADS * KEPT) LAUNCH(softmax_in_registers, R, THREADS, 0, NULL)(y, x, C);
    else LAUNCH(softmax_reread, R, THREADS, 0, NULL)(y, x, C);
    return OK;
}
