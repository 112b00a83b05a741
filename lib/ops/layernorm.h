/* Layer normalisation over the last axis:
 *
 *   mean = sum_c x[c] / C     var = sum_c (x[c] - mean)^2 / C     rstd = 1 / sqrt(var + 1e-5)
 *   n[c] = (x[c] - mean) rstd                                     y[c] = n[c] g[c] + b[c]
 *
 * Backward, with d[c] = dy[c] g[c]:
 *   dx[c] = rstd (d[c] - sum_i d[i] / C - n[c] sum_i d[i] n[i] / C)
 *   dg[c] += sum_r dy[r,c] n[r,c]     db[c] += sum_r dy[r,c]
 *
 * in[0] x (..., C)   out[0] y   out[1] statistics (..., 2): mean and rstd, in the accumulator's dtype, so that backward
 * does not sum the row again   weight[0] g (C)   weight[1] b (C)
 *
 * The last axis must be whole: a shard has not the row's mean. Source: Ba, Kiros, Hinton 2016. */
#ifndef TRIVIUM_OPS_LAYERNORM_H
#define TRIVIUM_OPS_LAYERNORM_H

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAYERNORM_EPS 1e-5

extern const struct op op_layernorm;

#ifdef __cplusplus
}
#endif
#endif
