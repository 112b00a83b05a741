/* Linear layer: y[r,k] = sum_c x[r,c] W[k,c] (+ b[k])
 *
 * Axes are named, so one op serves every projection of a transformer. The trailing axes that W and x have in common are
 * summed over; W's other axes become y's trailing ones:
 *
 *   x (B,T,C)    W (3,H,D,C)  ->  y (B,T,3,H,D)         qkv
 *   x (B,T,H,D)  W (C,H,D)    ->  y (B,T,C)             proj
 *   x (B,T,C)    W (V,C)      ->  y (B,T,V)             head
 *
 * If an output axis of W is sharded (H, K, V under tensor parallelism), y is that slice. If the summed axis is sharded,
 * y is a partial sum, which the caller must add over the ranks. The kernels do the same in all of these cases.
 *
 *   dx[r,c] = sum_k dy[r,k] W[k,c]        reads W
 *   dW[k,c] += sum_r dy[r,k] x[r,c]       reads x
 *   db[k]   += sum_r dy[r,k]
 *
 * in[0] x   out[0] y   weight[0] W   weight[1] b, optional, with W's leading axes */
#pragma once

#include "lib/ops/gemm/gemm.h"
#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_linear;

/** The matrix sizes of a step: R rows, K outputs, N inputs summed over. From the types of x and W. */
struct linear_sizes { int64_t R, K, N; };
struct linear_sizes linear_sizes(const struct call *);
/** Add the product of a row to a cost. */
void linear_cost_product(const struct linear_sizes *, enum row_kind, struct cost *);

/** How the GPU sums db: in `chunks` chunks of `rows` rows each (the last may have fewer). The partial sums, (chunks, K)
 * in the accumulator's dtype, take `bytes` of scratch. Only R, K and the dtype determine the chunks, so the sum does
 * not depend on the GPU. */
struct linear_chunks { int64_t rows, chunks, bytes; };
struct linear_chunks linear_chunks(const struct call *);

/** The type of y from those of x and W, whose dtypes are not compared. @errors E_CONFIG */
enum status linear_infer(const struct call *, struct type out[MAX_OUT]);

/** The matrix product of a row. A sum over an axis with leaves is taken by leaves. W's gradient may be kept in higher
 * precision, so backward_weight must set c_dtype to the dtype of dweight[0]. */
struct gemm linear_gemm(const struct call *, enum row_kind);

#ifdef __cplusplus
}
#endif
