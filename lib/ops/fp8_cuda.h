/* The CUDA kernels of linear_fp8 (fp8_cuda.cu) and linear_blocks (linear_blocks_cuda.cu), compiled for each element
 * type. */
#pragma once

#include "lib/ops/fp8.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Cast a matrix x (rows, columns): write its codes to `code`, and transposed, (columns, rows), to `turned`; skip either
 * if it is NULL. In training also raise the tensor's amax. */
struct fp8_cast { enum fp8_tensor tensor; const void *x; int64_t rows, columns; uint8_t *code, *turned; };
typedef enum status fp8_cast_kernel(const struct call *, const struct fp8_cast *);

/* Transpose: turned (columns, rows) from codes (rows, columns). */
typedef enum status fp8_turn_kernel(const struct call *, const uint8_t *code, int64_t rows, int64_t columns,
                                    uint8_t *turned);

/* Cast a matrix x (rows, columns) by blocks for a product; 32 divides both sizes. For y, and dy for dx, blocks lie
 * along rows, and codes are in the order of x. For dW, and W for dx, they lie down columns, and codes are transposed:
 * (columns, rows). `scale` gets the scales in tiles (block.h), with the zeros; those of x for dW, which are kept, as
 * they are: (columns, blocks). With a second level the tensor's amax is raised in training. No mixing with scales in
 * E8M0. */
struct blocks_cast {
    enum fp8_tensor tensor;
    enum block_product product;
    const void *x;
    int64_t rows, columns;
    uint8_t *code, *scale;
};
typedef enum status blocks_cast_kernel(const struct call *, const struct blocks_cast *);
static inline int blocks_turned(const struct blocks_cast *c) {
    return c->product == FOR_DW || (c->product == FOR_DX && c->tensor == FP8_W);
}

/* Scales as they are, (rows, blocks), to tiles. */
typedef enum status blocks_tile_kernel(const struct call *, const uint8_t *scale, int64_t rows, int64_t blocks,
                                       uint8_t *tiled);

#ifdef __cplusplus
}
#endif
