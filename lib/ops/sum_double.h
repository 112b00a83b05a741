/* Sums in double over a thread block, in an order that is fixed by the sizes alone. Only .cu files include this. */
#pragma once

#include "lib/device/gpu.h"

__device__ static inline double warp_sum_double(double v) {
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

/* Every thread gets the sum. shared: 32 doubles of shared memory, which the caller may reuse after its next
 * __syncthreads. The block has one dimension, a multiple of 32 threads. */
__device__ static inline double block_sum_double(double v, double *shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    v = warp_sum_double(v);
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    return warp_sum_double(lane < n_warps ? shared[lane] : 0.);
}
