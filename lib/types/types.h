/* Types: the distribution of a program's tensors over the ranks of the mesh, derived by one rule per op. A program
 * whose types do not fit together is refused before anything runs.
 *
 * Idea. The mesh is a product of *factors* (tp, cp, dp, ...; an axis that is a part of another splits it). Over each
 * factor a tensor is one of
 *
 *   R      replicated: the same on all ranks of the factor
 *   S(t)   sharded along its axis t: each rank has a part
 *   P      a partial sum: the tensor is the sum of the ranks' tensors. Only a sum may read it
 *   V      varying: the ranks have different tensors on purpose, and no axis is sharded (counts of rows)
 *
 * Shapes declare the types of tokens, targets and params. From these, the rule that each op states (enum typing,
 * lib/ops/op.h) gives the type of every slot, step by step forward, and of every gradient, backward:
 *
 *   a product      x R, w S(k) -> S(k)    x S(c), w S(c) -> P, c is summed    x S(t), w R -> S(t)    x P, w R -> P
 *                  (both gradients are products again, of dy and w, dy and x: the same function types all three)
 *   a look-up      R, table sharded by rows -> P
 *   local          R -> R, S(t) -> S(t); P is refused: norms, gelu, attention, dropout, residuals, biases
 *   a loss         R -> R; S(tokens) -> P, which the run sums at the end
 *   sums and exchanges    P -> R, P -> S(t), S(t) -> R, S(t) -> S(u) over the step's own axis of the mesh
 *
 * The gradient of a tensor R is R, or P while each rank has only its own part of the gradient. The gradient of S(t) is
 * S(t), and of P it is R. Two gradients of a slot can be added only if their types are equal. Megatron's f and g, and
 * the reshards of experts, make them equal; if a program lacks one of these, its types do not fit.
 *
 * Further checks: a type is S(t) where the shape is sharded, and over the same number of ranks; a shard has the place
 * that the rank's coordinates give; a param's gradient is P over exactly the axes over which param.reduce sums it; of
 * all copies of an element, and of the loss, one is counted; ZeRO's shards are those of the ranks that sum.
 * program_infer derives reduce and counted from the bits of axis.cut, so the check is independent of it.
 *
 * Types do not check kernels, sizes within a rank, the order of collectives, or an error that all ranks make in the
 * same way. An axis of the mesh that is no product of factors (cp=3 dp=2 ep=2) gives type V, which is not checked.
 *
 * Source: Yuan et al. 2021, "OneFlow" (arXiv 2110.15032: S, B and P); Xu et al. 2021, "GSPMD" (arXiv 2105.04663);
 * meta-pytorch/spmd_types (R, I, V, P and S, and the gradients' types). */
#pragma once

#include "lib/program/program.h"

enum spread_kind { SPREAD_NONE, REPLICATED, SHARDED, PARTIAL, VARYING };
struct spread { enum spread_kind kind; char tag; };    /* the tag of S */

/* A factor of the mesh: its ranks are `stride` apart; index: this rank's. */
struct factor { char name[16]; int stride, size, index; };
enum { MAX_FACTORS = 8 };
/* at: the factors, innermost first. over: for each axis of the mesh, as bits, the factors whose product it is; if it is
 * not `exact`, the factors that it touches. Axes along the pipeline have no factors, because each stage has its own
 * program. */
struct factors { int n; struct factor at[MAX_FACTORS]; unsigned over[N_MESH_AXES]; bool exact[N_MESH_AXES]; };

struct typed { struct spread at[MAX_FACTORS]; };       /* a tensor's type, for each factor */
/* Owned tables, by slot and by param. param_grad is the type before the run sums the gradient. A slot without a
 * gradient has SPREAD_NONE. */
struct types { struct factors factors; struct typed *slot, *slot_grad, *param, *param_grad; };

/** The factors with more than one rank. Pure. */
struct factors factors_of(const struct mesh_place *);

/** Derive all types of a program for which program_infer has run. `rewrite`: the name of the last rewrite, for the
 *  error. Free with types_fini, even after an error. @errors E_INTERNAL: names the slot or param, the rule and the
 *  rewrite @collective{none} */
enum status types_infer(const struct program *, const char *rewrite, struct types *);
void types_fini(struct types *);
/** As types_infer, but only the status is kept. @errors as types_infer @collective{none} */
enum status types_check(const struct program *, const char *rewrite);
/** Check that one copy of each loss is added to the mesh's sum. n_added: the losses (op.loss_out) that this rank adds.
 *  @errors E_INTERNAL, also as types_infer @collective{none} */
enum status types_check_losses(const struct program *, int n_added);

/** "R", "S(H)", "P", "V"; "-" for SPREAD_NONE. Static storage, which the ninth call overwrites. */
const char *spread_text(struct spread);
/** Print one line for each slot and param: its type and its gradient's, by factor. */
void types_print(const struct program *, const struct types *, FILE *);
