/* Rows that stay in a block's registers, for the CUDA kernels of layernorm and rmsnorm. Only *_cuda.cu files include
 * this. layernorm_cuda.cu explains which threads take which rows. */
#pragma once

#include "lib/ops/groups_cuda.h"

enum { KEPT = 4, MAX_ROW_WARPS = 16 };

/* The block is (threads of a row, rows): a warp for each of several rows, or all warps for one. */
__device__ static inline real row_sum(real v, real *shared) {
    if (blockDim.x == 32) return warp_sum(v);
    __syncthreads();   /* all threads have read the last sum from `shared` */
    return block_sum(v, shared);
}
/* The same for kernels with one sum a row. No barrier: a block uses `shared` once, for its only row (rows_launch). */
__device__ static inline real only_sum_of_row(real v, real *shared) {
    return blockDim.x == 32 ? warp_sum(v) : block_sum(v, shared);
}
#define FOR_ROWS_OF_BLOCK(r, R)                                                                                        \
    for (int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; r < (R); r += (int64_t)gridDim.x * blockDim.y)

/* fma is explicit, so that two kernels whose results must have equal bits round alike. */
__device__ static inline real add_square(real sum, real x) { return fma(x, x, sum); }

static inline int64_t row_length(const struct call *call) { return call->weight[0].type->shape.axis[0].n; }

/* The grid and block of a kernel that keeps rows in registers. */
struct rows_launch { unsigned grid; dim3 block; };
static inline struct rows_launch rows_launch(int64_t R, int64_t C) {
    int64_t warps = ceil_div(C, KEPT * WARP_COLUMNS), rows = warps == 1 ? ROW_WARPS : 1;
    struct rows_launch l = {(unsigned)min64(ceil_div(R, rows), INT32_MAX),
                            dim3((unsigned)(32 * warps), (unsigned)rows)};
    return l;
}
static inline int fits_in_registers(int64_t C) { return C <= MAX_ROW_WARPS * KEPT * WARP_COLUMNS; }
