/* Root-mean-square normalisation over the last axis: layernorm (layernorm.h) without mean and bias.
 *
 *   rstd = 1 / sqrt(sum_c x[c]^2 / C + eps)     n[c] = x[c] rstd     y[c] = n[c] g[c]
 *
 * Backward, with d[c] = dy[c] g[c]:
 *   dx[c] = rstd (d[c] - n[c] sum_i d[i] n[i] / C)     dg[c] += sum_r dy[r,c] n[r,c]
 *
 * in[0] x (..., C)   out[0] y   out[1] rstd (..., 1), in the accumulator's dtype, so that backward does not sum the row
 * again   weight[0] g (C)
 *
 * The last axis must be whole, because a shard does not have the row's mean square. Source: Zhang and Sennrich 2019. */
#pragma once

#include "lib/ops/op.h"

#define RMSNORM_EPS 1e-5
/** The eps of a call: its rule's, or RMSNORM_EPS if the rule's is 0. */
static inline double rmsnorm_eps(const struct call *c) {
    return c->step->norm.eps > 0 ? c->step->norm.eps : RMSNORM_EPS;
}

extern const struct op op_rmsnorm;
