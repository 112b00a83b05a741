/* A linear layer for each expert, over the rows that it received:
 *
 *   y[e] = x[e] W[e]^T      dx[e] = dy[e] W[e]      dW[e] += dy[e]^T x[e]
 *
 * in[0] x (E, P, R, C): P R rows for each expert   out[0] y (E, P, R, ...)
 * weight[0] W (E, ..., C): "..." is K units, or 2 F, F gates and F units that they multiply
 *
 * E products of the project's gemm (lib/ops/gemm/gemm.h) run one after the other, each on the whole device. E may be
 * any shard, if x and W have the same shard.
 *
 * in[1] counts (1, P, E), if given: rows are packed (moe_pack.h). x is (1, P, R, C), a box of R rows from each sender,
 * in which the rows of expert e follow those of e - 1. There are E P products, and rows that no rank sent become zero.
 * The size of a product then depends on the data; scratch and cost are those of full boxes. On a GPU the host does not
 * have the counts, and one kernel of our own makes all products (packed_product.h).
 *
 * expert_bias adds a vector of each expert to its rows: y = x + b[e]     dx = dy     db[e] += sum over its rows of dy
 *
 * in[0] x (E, P, R, ...)   in[1] counts, as above   out[0] y, the same type   weight[0] b (E, ...)
 *
 * An empty place gets the bias, too, but no token reads it, and its dy is zero. A packed row of no expert stays zero.
 *
 * Source: Lepikhin et al. 2020, "GShard". */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_expert_linear, op_expert_bias;

/** Rows of expert_bias: of E experts, in `boxes` boxes of `rows` rows of K numbers. counts (boxes, E): rows of each
 *  expert in a box; NULL: all, of the expert with the box's number. */
struct expert_rows {
    int64_t E, boxes, rows, K;
    const int32_t *counts;
};
static inline struct expert_rows expert_rows(const struct call *call) {
    const struct axis *x = call->in[0].type->shape.axis;
    const struct type *b = call->weight[0].type;
    int64_t E = b->shape.axis[0].n, K = type_n(b) / E;
    struct expert_rows s = {E, E, x[1].n * x[2].n, K, NULL};
    if (call->step->n_in == 2) s.boxes = x[1].n, s.rows = x[2].n, s.counts = (const int32_t *)call->in[1].data;
    return s;
}

#ifdef __cplusplus
}
#endif
