/* Token embedding: y[b,t,c] = W[token[b,t], c]
 *
 *   dW[k,c] += sum over (b,t) with token[b,t] = k of dy[b,t,c]
 *
 * in[0] tokens int32 (B,T)   out[0] y (B,T,C)   weight[0] W (V,C); of segments, which are 0 or 1, W (2,C)
 *
 * With a shard of the vocabulary, tokens of another shard (and negative ones, which pad evaluation batches) give zeros:
 * the sum over the shards is the whole. A token at or beyond the global vocabulary is refused. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_embedding;
