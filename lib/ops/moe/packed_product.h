/* Products of packed rows and their experts' matrices on a GPU, all in one launch. expert_linear.h has the formulas,
 * moe_pack.h has the layout of rows. Private to expert_linear.c.
 *
 * An expert's number of rows is data that only the GPU has. But the size of a box is known, and it bounds the number of
 * tiles, however the rows are divided among the experts: for R rows of E experts, or of none,
 *
 *   tiles <= R / TILE + E + 1        each of the E + 1 has at most one tile that is not full
 *
 * This number of blocks is launched. Each block finds its expert from the counts; some blocks have no tile. */
#pragma once

#include "lib/ops/gemm/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** c = a b (+ c if gemm.beta is 1), for each expert and box. With gemm.transpose_a, c (experts, m, n) has a matrix for
 *  each expert, summed over boxes in order: a (boxes x rows, m), b (boxes x rows, n). Otherwise b has a matrix for each
 *  expert, (experts, k, n), or with transpose_b (experts, n, k): a (boxes x rows, k), c (boxes x rows, n). A row of c
 *  without an expert becomes zero, or with beta 1 stays. c_dtype: that of a and b, or their accumulator's. */
struct packed_product {
    struct gemm gemm;
    int64_t boxes, experts, rows;
    const int32_t *counts;            /* (boxes, experts), on the GPU */
    const void *a, *b;
    void *c;
};

typedef enum status packed_product_kernel(const struct packed_product *, const struct device *);
extern packed_product_kernel packed_product_cuda_fp64, packed_product_cuda_fp32, packed_product_cuda_bf16,
    packed_product_cuda_fp16;

#ifdef __cplusplus
}
#endif
