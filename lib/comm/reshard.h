/* An all-to-all as an op: an axis that was sharded becomes whole, and another one is sharded instead.
 *
 *   (.., G/n, .., K, ..)  ->  (.., G, .., K/n, ..)     step->reshard: the tags of G and of K
 *
 * Backward is the same with G and K exchanged. Elements are only moved, so the result has the same bits. Before
 * attention, Ulysses gathers tokens and shards heads; expert parallelism gathers groups of tokens and shards experts.
 *
 * Each rank's part of G is contiguous, or step->reshard.whole gives the order (zig-zag). Sent: S (n-1)/n of the S bytes
 * of a rank, over step->mesh_axis, forward and backward. The exchange needs equal contiguous pieces, so elements are
 * transposed before it, into scratch, and after it (lib/ops/pieces.h):
 *
 *   K behind G    (rows, n, K/n ..)  ->  (n, rows, K/n ..)   exchange   (n, outer, G/n ..)  ->  (outer, n, G/n ..)
 *   K before G    (outer, n, K/n ..) ->  (n, outer, K/n ..)  exchange   (n, rows, G/n ..)   ->  (rows, n, G/n ..)
 *
 * Source: Jacobs et al. 2023, "DeepSpeed Ulysses"; Lepikhin et al. 2020, "GShard". */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_reshard;
extern const struct op op_reshard_counts;      /* for integers, which have no gradient */
