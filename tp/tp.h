/* Tensor parallelism: each layer's matrices are sharded over tp ranks. See tp.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_tp;

/* The head and its loss by chunks of tokens, over a vocabulary sharded over tp (tp_linear_cross_entropy.c).
 *  in[0] x (B,T,C), in[1] targets (B,T) int32, weight[0] W (V/tp,C) -> out[0] the loss, the same on every rank. */
extern const struct op op_tp_linear_cross_entropy;

/* A norm over all heads, of which a rank has 1/tp: ranks add each token's sum of squares, and of dy g n in backward. */
extern const struct op op_tp_rmsnorm_heads;

struct tp_options { int sp; };           /* sequence parallelism */
static inline struct tp_options *tp_options(const struct plan *p) { return plan_own(p, &technique_tp.options); }

/* ---- With --sums fixed: the parts, or leaves, of a sum over an axis that tp may cut. See tp_leaves.c. ---- */

/** Set the leaves of all axes that tp or sp may cut (struct axis). Pure. */
void tp_leaves_mark(struct program *);
/** The elements that each of `ranks` ranks has of an axis with leaves. Pure. */
int64_t tp_leaves_part(const struct axis *, int64_t ranks);
/** Check that the plan's tp splits no leaf. @errors E_CONFIG  @collective{none} */
enum status tp_leaves_check(const struct plan *);
