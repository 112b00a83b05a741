/* Column sums for the CUDA kernels, in two stages. In the op's own kernel a block sums one tile of columns over one
 * slice of rows, and writes a row of partial sums. Then columns_add_slices adds the slices, in order. See columns.h.
 * Only *_cuda.cu files include this. */
#pragma once

#include "lib/base/integer.h"
#include "lib/ops/columns.h"
#include "lib/ops/groups_cuda.h"

/** The rows of this block's slice. */
struct rows_range { int64_t first, last; };
__device__ static inline struct rows_range slice_rows(int64_t R, int64_t slice, int64_t n_slices) {
    int64_t each = (R + n_slices - 1) / n_slices, first = slice * each;
    struct rows_range s = {first, first + each < R ? first + each : R};
    return s;
}

/** Warp 0 writes its sums from block_sum_groups into the slice's row of partial sums. */
__device__ static inline void slice_store(real *partial, int64_t slice, int c, int C, const real *v) {
    for (int j = 0; j < GROUP && threadIdx.x < 32; j++)
        if (c + j >= 0 && c + j < C) partial[slice * C + c + j] = v[j];
}

enum { SLICE_THREADS = 1024, SLICE_WARPS = SLICE_THREADS / 32 };

/* gradient[c] += the sum of partial[s, c] over the slices s. A block takes 32 columns, and each warp every 32nd
 * slice. */
__global__ static void __launch_bounds__(SLICE_THREADS)
    columns_add_slices(void *gradient0, int is_real0, void *gradient1, int is_real1, const real *partial, int n_slices,
                       int C) {
    __shared__ real sums[SLICE_WARPS][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = (int)blockIdx.x * 32 + lane;
    const real *mine = partial + (int64_t)blockIdx.y * n_slices * C + c;
    real sum = 0;
    if (c < C)
#pragma unroll 4
        for (int s = warp; s < n_slices; s += SLICE_WARPS) sum += mine[(int64_t)s * C];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= C) return;
    for (int w = 1; w < SLICE_WARPS; w++) sum += sums[w][lane];
    grad_add(blockIdx.y ? gradient1 : gradient0, blockIdx.y ? is_real1 : is_real0, c, sum);
}

/** The second stage of n_sums (1 or 2) column sums: add the partial sums in scratch to the step's weight gradients. */
static inline enum status columns_finish(const struct call *call, int n_sums, int64_t n_slices, int64_t C) {
    const struct tensor *g0 = &call->dweight[0], *g1 = &call->dweight[n_sums - 1];
    dim3 grid((unsigned)ceil_div(C, 32), (unsigned)n_sums);
    return LAUNCHED(columns_add_slices, grid, SLICE_THREADS, 0, stream_of(call), g0->data, is_real(g0), g1->data,
                    is_real(g1), (const real *)call->work, (int)n_slices, (int)C);
}
