/* Packed rows: the row of each choice, if the rows of the experts follow one another without empty places.
 *
 *   moe_route gives each choice one of S places of its expert, and with capacity 0 most places stay empty. Packed, a
 *   rank sends one *box* of rows to each of n ranks. A rank has N = E/n experts, and its box is sorted by expert:
 *
 *       box of rank d:  | rows of expert d N | rows of expert d N + 1 | ... | unused |
 *
 *   A token goes to at most min(k, N) experts of a rank, so a box of R = tokens min(k, N) rows always suffices. R is
 *   fixed before the first step. The numbers of rows in use are data, and are sent along as `counts`. Without ep there
 *   is one box, and if nothing is dropped it is full.
 *
 * in[0] picks (B,T,k) of moe_route   out[0] rows (B,T,k) int32: d R + row in box d; -1: dropped
 * out[1] counts (n,P,N) int32: rows of each expert, with P = 1, the sending rank; the tag of axis n is E
 *
 * Rows of an expert are in the order of tokens. The outputs are a decision, in integers, and never recomputed. Source:
 * Gale et al. 2022, "MegaBlocks", section 4 (dropless by products of different sizes). */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_moe_pack;

/** How a step of RULE_MOE finds rows: place p of group g in a box is row g `places` + p of the box's `rows`. Padded, a
 *  box is an expert. Packed, a box is a rank, and all tokens are one group. */
struct moe_boxes { int64_t n, group, places, rows; };
struct moe_boxes moe_boxes(const struct step *, int64_t tokens);

#ifdef __cplusplus
}
#endif
