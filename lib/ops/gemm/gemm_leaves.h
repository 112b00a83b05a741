/* Products whose sums do not depend on how the summed axis is sharded. Private to gemm.c.
 *
 * Tensor parallelism cuts such a sum, and the ranks' parts are added in another order than one rank adds the whole. So
 * let every layout compute what the widest one would: k is cut in leaves, each as much as a rank of the widest layout
 * would hold. A leaf is summed from zero, in its own order; then leaves are added by halves:
 *
 *   c[i,j] = (l0 + l1) + (l2 + l3)        l_s = sum over the leaf s of a[i,p] b[p,j]
 *
 * A rank that holds a half, or a quarter, holds a whole subtree, and the sum over ranks goes on with the same tree
 * (lib/comm/hops/hops_halving.c). A leaf of k = (3, heads, head size) is three pieces: what a rank of its heads has.
 *
 * The packed kernel's order depends on the depth alone (gemm_packed.h), and so does that of a leaf: not on m, on n, on
 * the number of threads, or on how many leaves lie here. Where C is in 16 bits a leaf is rounded as a rank's part would
 * be, and so is every sum of two, as ranks add them (comm_reduce.c).
 *
 * Costs: a C in fp32 for each level of the tree, and its traffic. */
#pragma once

#include "lib/ops/gemm/gemm.h"

/** Scratch bytes: what a leaf needs, and the sums. */
int64_t gemm_leaves_work(const struct gemm *, int n_threads);

/** As gemm_run, for fp32, bf16 and fp16 with alpha 1, beta 0 and no bias: a sum that others go on with has no more than
 *  its terms. @param work gemm_leaves_work bytes @errors E_INTERNAL: anything else; as gemm_run */
enum status gemm_leaves_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);
