/* --sums fixed: the same bits in every layout.
 *
 * Floating-point addition is not associative, so the result of a sum depends on the order of adding. Each layout has
 * its own order: dp adds replicas' gradients, tp adds parts of products, and microbatches are added one after the
 * other. With fixed sums every layout adds in the order of the widest layout:
 *
 *   a leaf    a part that no layout divides: one sample of the batch; if sp may cut the tokens, the tokens that one of
 *             8 tp ranks would have; in a product that tp cuts, the terms that such a rank would sum (struct axis,
 *             leaves)
 *   the tree  leaves are added by halves of their global numbers: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
 *
 * A rank or a microbatch has a whole subtree if its number of leaves is a power of two, and the leaves begin at a
 * multiple of this number. The sums over microbatches and over ranks continue the same tree. a + b equals b + a to the
 * bit, so only the pairing of neighbors matters. So these sums have one order in every layout:
 *
 *   products cut by tp   lib/ops/gemm/gemm_leaves.h, and the loss's sum over the vocabulary
 *   sums over ranks      lib/comm/hops/hops_halving.c
 *   weight gradients     lib/comm/sums_rows.h: a row runs once a leaf, and a binary counter adds: bit l of the
 *                        number of leaves so far is set where a sum of 2^l leaves waits for its neighbor
 *   samples              a replica's samples are neighbors, so that it adds over its microbatches first, and dp last;
 *                        with sharded gradients (zero 2 and 3) the samples of one microbatch, over all replicas, are
 *                        neighbors, and dp adds before microbatches
 *   a tied weight        each use has its own gradient; these are added at the end, as from both ends of a pipeline
 *   loss and norm        sums without rounding, in any order (lib/base/exact.h)
 *
 * All other sums have one order in every layout: normalization and attention sum within a token or a head of a sample.
 *
 * Costs: a weight gradient takes one product per sample. log2(microbatches) gradients wait in role grad, and log2(a
 * microbatch's samples) in scratch. `compare` shows the costs.
 *
 * What breaks it: a leaf that begins where this rank begins; a running sum over microbatches; adding terms in the order
 * in which they arrive.
 *
 * Sources: Demmel and Nguyen 2013, "Fast reproducible floating-point summation"; Villa, Chavarria-Miranda, Gurumoorthi,
 * Marquez and Krishnamoorthy 2009, "Effects of floating-point non-associativity on numerical computations on massively
 * multithreaded systems"; Blelloch 1990 for the tree. */
#pragma once

#include "lib/comm/sums_rows.h"
#include "lib/program/schedule.h"

/** For every use of a weight after its first, add a param that has only a gradient (param.gradient_of). Called after
 *  the last rewrite. */
void sums_split_uses(struct program *);

/** Add to each param an array for partial sums that wait for others, and mark the ranks over which rows sum its
 *  gradient (param.summed). After gradients_mark.
 *  @errors E_CONFIG: microbatches come in an order that does not add neighbors, or their number is no power of two
 *  @collective{none} */
enum status sums_mark(struct program *, const struct chunk *, const struct schedule *);

/** The number, in the step's global batch, of the first sample of a rank's microbatch. Pure. */
int64_t sums_first_sample(const struct program *, const struct mesh_place *, const struct schedule *, int microbatch,
                          int64_t micro);

/** Add the gradients of a weight's other uses to its own gradient: the own elements, after the sums over ranks.
 *  @errors E_DEVICE */
enum status sums_add_uses(const struct device *, const struct program *);
/** Add microbatch k's gradient, `sum`, to the partial sums of the microbatches before it; `sum` is overwritten. After
 *  the last microbatch the result is the param's gradient; the rest of its resident elements is cleared. @errors
 *  E_DEVICE */
enum status sums_push(const struct device *, const struct param *, int k, float *sum);
