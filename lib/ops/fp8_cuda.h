/* The CUDA kernels of linear_fp8 (fp8_cuda.cu), compiled for each element type. */
#pragma once

#include "lib/ops/fp8.h"

#ifdef __cplusplus
extern "C" {
#endif

/* code(x) of a matrix x (rows, columns), as x lies and turned, (columns, rows); NULL: not wanted. In training its amax
 * is noted. */
struct fp8_cast { enum fp8_tensor tensor; const void *x; int64_t rows, columns; uint8_t *code, *turned; };
typedef enum status fp8_cast_kernel(const struct call *, const struct fp8_cast *);

/* turned (columns, rows) of codes (rows, columns) */
typedef enum status fp8_turn_kernel(const struct call *, const uint8_t *code, int64_t rows, int64_t columns,
                                    uint8_t *turned);

#ifdef __cplusplus
}
#endif
