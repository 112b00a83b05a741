/* The CUDA kernels of linear_fp8 (fp8_cuda.cu), compiled for each element type. */
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

#ifdef __cplusplus
}
#endif
