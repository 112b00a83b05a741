/* Bags of rows: pooled[p,f,b,d] = sum over m of W[f, id[p,f,b,m], d]
 *
 *   in[0] ids int32 (P,F,B,M): in feature f, sample b of replica p has a bag of up to M ids; -1: empty
 *   weight[0] W (F,V,D), a table a feature       weight[1] (F,V), rowwise Adagrad's sums (rows.h); not read here
 *   out[0] pooled (P,F,B,D)
 *
 * If V is sharded, a rank adds up the rows of its shard, and the sum over the shards is pooled; if F is sharded, each
 * rank has the bags of its features. Ids at or beyond the global V are refused.
 *
 * Backward. The gradient of a table is not as large as the table: row W[f,v] gets dpooled[p,f,b] once for each time
 * that v is in bag (p,f,b). So a microbatch writes a *record*: its ids and dpooled, one vector for each bag, because
 * all ids of a bag get the same vector. Records of a step lie one after another in the gradient arena and are always
 * written whole; rows.h applies them.
 *
 * Source: torch.nn.EmbeddingBag, mode="sum"; Naumov et al. 2019, "DLRM". */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_embedding_bag;
