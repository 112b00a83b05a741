/* Layer normalisation over the last axis:
 *
 *   mean = sum_c x[c] / C     var = sum_c (x[c] - mean)^2 / C     rstd = 1 / sqrt(var + eps)
 *   n[c] = (x[c] - mean) rstd                                     y[c] = n[c] g[c] + b[c]
 *
 * Backward, with d[c] = dy[c] g[c]:
 *   dx[c] = rstd (d[c] - sum_i d[i] / C - n[c] sum_i d[i] n[i] / C)
 *   dg[c] += sum_r dy[r,c] n[r,c]     db[c] += sum_r dy[r,c]
 *
 * in[0] x (..., C)   out[0] y   out[1] statistics (..., 2): mean and rstd, in the accumulator's dtype, so that backward
 * does not sum the row again   weight[0] g (C)   weight[1] b (C)
 *
 * The last axis must be whole, because a shard does not have the row's mean. Source: Ba, Kiros, Hinton 2016. */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAYERNORM_EPS 1e-5

extern const struct op op_layernorm;

/** The eps of a call: its rule's, or LAYERNORM_EPS if the rule's is 0. */
static inline double layernorm_eps(const struct call *c) {
    return c->step->norm.eps > 0 ? c->step->norm.eps : LAYERNORM_EPS;
}

/* Rows that stay in registers for all of backward: the most groups (of 16 bytes, at least 4 elements) per thread, and
 * the most warps per block, for elements of `bytes` bytes. */
#define LAYERNORM_BACKWARD_KEPT(bytes) ((bytes) == 2 ? 3 : 4)
#define LAYERNORM_BACKWARD_WARPS(bytes) ((bytes) == 8 ? 8 : 16)

struct layernorm_rows { int warps, rows; };

/** Rows of C elements in the fused backward kernel (layernorm_backward_cuda.cu): a block takes `rows` rows at a time,
 *  each by `warps` warps. If warps is 0, the row is too long for that kernel. */
struct layernorm_rows layernorm_backward_rows(int64_t C, enum dtype);
/** A GPU sums the weights' gradients over slices of rows. The number of slices, in the fused kernel too. */
int64_t layernorm_slices(int64_t R, int64_t C, enum dtype);

#ifdef __cplusplus
}
#endif
