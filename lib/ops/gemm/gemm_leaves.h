/* Products whose sums do not depend on how the summed axis is sharded. Private to gemm.c.
 *
 * Tensor parallelism shards this axis, and then the sum over ranks has another order than a sum on one rank. So every
 * layout computes the sums of the widest layout: k is cut in leaves, each the part of one rank of the widest layout. A
 * leaf is summed from zero, in its own order; then leaves are added by halves:
 *
 *   c[i,j] = (l0 + l1) + (l2 + l3)        l_s = sum over the leaf s of a[i,p] b[p,j]
 *
 * A rank that holds a half, or a quarter, holds a whole subtree, and the sum over ranks goes on with the same tree
 * (lib/comm/hops/hops_halving.c). A leaf of k = (3, heads, head size) is three pieces, because a rank has some heads of
 * each of the 3.
 *
 * The packed kernel's order depends on the depth alone (gemm_packed.h), and so does the order of a leaf. It does not
 * depend on m, on n, on the number of threads, or on the number of leaves on this rank. Where C is in 16 bits, a leaf
 * and every sum of two are rounded as they are when ranks add them (comm_reduce.c).
 *
 * Costs: a C in fp32 for each level of the tree, and its traffic. */
#pragma once

#include "lib/ops/gemm/gemm.h"

/** Bytes of scratch: that of a leaf's product, and the sums that wait for their other half. */
int64_t gemm_leaves_work(const struct gemm *, int n_threads);

/** As gemm_run, for fp32, bf16 and fp16 with alpha 1, beta 0 and no bias, because other ranks' terms are added to the
 *  sum. @param work gemm_leaves_work bytes
 *  @errors E_INTERNAL: another dtype, alpha, beta or a bias; those of gemm_run */
enum status gemm_leaves_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);
