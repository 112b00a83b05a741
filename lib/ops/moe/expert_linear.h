/* A linear layer for each expert, of the rows that came to it:
 *
 *   y[e] = x[e] W[e]^T      dx[e] = dy[e] W[e]      dW[e] += dy[e]^T x[e]
 *
 * in[0] x (E, P, R, C): P R rows for each expert   weight[0] W (E, ..., C): K, or 2 F for a gate and what it lets pass
 * out[0] y (E, P, R, ...)
 *
 * E products of the project's gemm (lib/ops/gemm/gemm.h), one after the other, each on all of the device. Any shard of
 * E will do, if x and W have the same.
 *
 * in[1] counts (1, P, E), if given: rows are packed (moe_pack.h). x is (1, P, R, C), a box of R rows from each sender,
 * in which those of expert e begin where those of e - 1 end; there are E P products, and rows that no rank sent are
 * zero. How large a product is then depends on the data; scratch and cost are those of full boxes. On a GPU, which does
 * not tell, one kernel of our own makes them all (packed_product.h).
 *
 * Source: Lepikhin et al. 2020, "GShard". */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_expert_linear;
