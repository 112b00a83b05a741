/* Rows that stay in a block's registers, for the CUDA kernels of layernorm and rmsnorm. Only *_cuda.cu files include
 * this. See layernorm_cuda.cu for how rows are dealt out. */
#pragma once

#include "lib/ops/groups_cuda.h"

enum { KEPT = 4, MAX_ROW_WARPS = 16 };

/* The block is (threads of a row, rows): a warp for each of several rows, or all warps for one. */
__device__ static inline real row_sum(real v, real *shared) {
    if (blockDim.x == 32) return warp_sum(v);
    __syncthreads();   /* the last sum has been read */
    return block_sum(v, shared);
}
/* Where a row has one sum: a block comes to no other row after it (rows_launch). */
__device__ static inline real only_sum_of_row(real v, real *shared) {
    return blockDim.x == 32 ? warp_sum(v) : block_sum(v, shared);
}
#define FOR_ROWS_OF_BLOCK(r, R)                                                                                        \
    for (int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; r < (R); r += (int64_t)gridDim.x * blockDim.y)

/* Explicit fma, here and below, so that the compiler rounds alike in two kernels whose results must have equal bits. */
__device__ static inline real add_square(real sum, real x) { return fma(x, x, sum); }

static inline int64_t row_length(const struct call *call) { return call->weight[0].type->shape.axis[0].n; }

/* How rows that stay in registers are dealt out. */
struct rows_launch { unsigned grid; dim3 block; };
static inline struct rows_launch rows_launch(int64_t R, int64_t C) {
    int64_t warps = ceil_div(C, KEPT * WARP_COLUMNS), rows = warps == 1 ? ROW_WARPS : 1;
    struct rows_launch l = {(unsigned)min64(ceil_div(R, rows), INT32_MAX),
                            dim3((unsigned)(32 * warps), (unsigned)rows)};
    return l;
}
static inline int fits_in_registers(int64_t C) { return C <= MAX_ROW_WARPS * KEPT * WARP_COLUMNS; }
