/* Bags of rows: pooled[p,f,b,d] = sum over m of W[f, id[p,f,b,m], d]
 *
 *   in[0] ids int32 (P,F,B,M): sample b of replica p has in feature f a bag of up to M ids; -1: empty
 *   weight[0] W (F,V,D), a table a feature       weight[1] (F,V), what rowwise Adagrad keeps (rows.h); not read here
 *   out[0] pooled (P,F,B,D)
 *
 * Of a shard of V a rank adds up the ids that lie in it, and the sum over the shards is the whole; a shard of F has
 * bags of its own. Ids at or beyond the global V are refused.
 *
 * Backward. The gradient of a table is not as large as the table: row W[f,v] gets dpooled[p,f,b] once for each time
 * that v stands in bag (p,f,b). So a microbatch leaves a *record*: its ids and dpooled, which say for every id which
 * vector its row gets. (A vector a bag, and not one an id: the ids of a bag get the same one.) Records of a step lie
 * one after another in the gradient arena; they are always written whole, and what happens to them is rows.h.
 *
 * Source: torch.nn.EmbeddingBag, mode="sum"; Naumov et al. 2019, "DLRM". */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_embedding_bag;
