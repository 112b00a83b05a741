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
 * Source: Lepikhin et al. 2020, "GShard". */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_expert_linear;
