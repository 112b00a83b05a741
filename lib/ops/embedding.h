/* Token embedding: y[b,t,c] = W[token[b,t], c]
 *
 *   dW[k,c] += sum over (b,t) with token[b,t] = k of dy[b,t,c]
 *
 * in[0] tokens int32 (B,T)   out[0] y (B,T,C)   weight[0] W (V,C); or (2,C), if the tokens are segments, 0 or 1
 *
 * If V is sharded, tokens of other shards give zeros, so that the sum over the shards is y. Negative tokens, which pad
 * evaluation batches, also give zeros. A token at or beyond the global vocabulary is refused (on CUDA: see
 * embedding_cuda.cu). */
#pragma once

#include "lib/ops/op.h"
#include <stdint.h>

extern const struct op op_embedding;

/** Bytes of the scratch of the weight gradient on a GPU: the R positions of the batch, sorted by their token's row of
 *  the table. int32 position[R], and start[V + 1]: row k's positions, in ascending order, are position[start[k] ..
 *  start[k + 1] - 1]. */
static inline int64_t embedding_sort_bytes(int64_t R, int64_t V) { return (R + V + 1) * (int64_t)sizeof(int32_t); }
