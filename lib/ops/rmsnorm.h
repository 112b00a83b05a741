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
 * The last axis must be whole, because a shard does not have the row's mean square.
 *
 * Queries (B,T,H,D), or keys and values (B,T,2,J,D), have norms of their own, between their product and the rotation of
 * positions. A row is a head, with g (D) for all heads (rmsnorm_head), or all heads of a token, with g (H,D) or (J,D)
 * (rmsnorm_heads). Values are copied. out[1] rstd (B,T,H,1), or (B,T,1).
 *
 * Source: Zhang and Sennrich 2019; Henry et al. 2020 (norms of queries and keys). */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RMSNORM_EPS 1e-5
/** The eps of a call: its rule's, or RMSNORM_EPS if the rule's is 0. */
static inline double rmsnorm_eps(const struct call *c) {
    return c->step->norm.eps > 0 ? c->step->norm.eps : RMSNORM_EPS;
}

extern const struct op op_rmsnorm, op_rmsnorm_head, op_rmsnorm_heads;

/** The type of a norm of queries or keys, whose heads may be a shard. @errors E_CONFIG */
enum status rmsnorm_heads_shape(const struct call *, struct type out[MAX_OUT]);
/** Scratch of its rows: CPU and CUDA, rows of backward; CUDA, slices of the weight's gradient. */
int64_t rmsnorm_heads_work(const struct call *, enum row_kind);

/* The rows of a call. Row r begins at rmsnorm_row_at, and has C elements on this rank, `all` on all ranks. A token has
 * of_token rows and n_values values, and tokens are `stride` elements apart. */
struct rmsnorm_rows { int64_t n, C, all, of_token, stride, n_values; };
static inline struct rmsnorm_rows rmsnorm_rows(const struct call *call) {
    const struct shape *x = &call->in[0].type->shape, *g = &call->weight[0].type->shape;
    int64_t C = 1, all = 1, n_values = x->n_axes == 5 ? x->axis[3].n * x->axis[4].n : 0;
    for (int i = 0; i < g->n_axes; i++) C *= g->axis[i].n, all *= g->axis[i].global;
    int64_t of_token = n_values ? n_values / C : 1, stride = of_token * C + n_values;
    struct rmsnorm_rows rows = {type_n(call->in[0].type) / stride * of_token, C, all, of_token, stride, n_values};
    return rows;
}

/** The rows of an op whose heads may be a shard. add: adds the ranks' sums of all rows (out[1] has a number a row), in
 *  device memory; NULL: this rank has all heads of its rows. @errors E_DEVICE; those of add */
typedef enum status rmsnorm_add(const struct call *, void *sum);
enum status rmsnorm_heads_forward(const struct call *, rmsnorm_add *);
enum status rmsnorm_heads_backward(const struct call *, rmsnorm_add *);
kernel rmsnorm_heads_weight;

/* The passes over this rank's part of the rows, on one kind of device. */
struct rmsnorm_pieces {
    enum status (*squares)(const struct call *, void *sum);          /* sum[r] = sum_c x[c]^2 */
    kernel *scale;                                                   /* out[1] has the sums -> rstd, and out[0] */
    enum status (*products)(const struct call *, void *sum);         /* sum[r] = sum_c d[c] n[c] */
    enum status (*gradient)(const struct call *, const void *sum);   /* -> din[0] */
    kernel *weight;                                                  /* adds to dweight[0] */
};

#ifdef __cplusplus
}
#endif
