/* fp32 products on the CPU, by a packed kernel of our own. Private to gemm.c.
 *
 * Idea. A tile of C, ROWS x COLUMNS, stays in registers while p runs over the depth: for each p it takes COLUMNS numbers of B and
 * ROWS of A, and makes ROWS * COLUMNS multiply-adds of them (8 x 48: 24 of AVX-512's vectors). That is the FMA units' limit, if what the
 * tile reads next lies next to what it read last, and near. So:
 *
 *   B is packed      in panels of COLUMNS columns, (depth, COLUMNS) each. A few panels, up to 400 KB, fit a core's second-level cache:
 *                    a thread packs them for itself, and all rows of A pass by.
 *                    Where B is stored by rows, and packing is but copying, the first tile that reads a whole panel packs it on its way.
 *   A is not packed  where it is stored by rows: ROWS streams that the processor foretells by itself, read once for each few panels of B.
 *   Where A is stored transposed (dW = dy^T x), ROWS numbers of a p lie together but those of the next p lie a row away. Then the
 *                    smaller of A and B is packed whole into `work`, by all threads, and the other a few panels at a time.
 *   Memory is asked  for while a tile is made, a little at a time: the rows of A of the next panel, the tile's own part of C, and what the
 *                    thread packs next; for a tile is all arithmetic, and leaves the memory idle meanwhile. A thread therefore knows
 *                    its next task before it has ended this one.
 *
 * Depth is cut in equal passes of at most 1024, and a pass adds to what the one before left in C. So
 *
 *   c[i,j] = beta c[i,j] + bias[j] + alpha sum_p a[i,p] b[p,j]  is summed in one order that k alone fixes:
 *
 * no bit of it depends on the number of threads, on m or n, or on which rows and columns of a larger matrix these are.
 *
 * Source: Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", sections 4 and 6; what is packed and what
 * is not, and by whom, is ours. */
#ifndef TRIVIUM_OPS_GEMM_FP32_H
#define TRIVIUM_OPS_GEMM_FP32_H

#include "lib/ops/gemm.h"

/** Scratch bytes; the same on every machine. 0 unless A is transposed. */
int64_t gemm_fp32_work(const struct gemm *);

/** As gemm_run, for fp32, with rows of A, B and C that lie lda, ldb, ldc elements apart; threads are OpenMP's.
 *  Each thread takes 0.4 MiB of its stack.
 *  @param work gemm_fp32_work bytes; its last word is written, whatever of it is used */
void gemm_fp32_run(const struct gemm *, const float *a, int64_t lda, const float *b, int64_t ldb, const float *bias, float *c, int64_t ldc,
                   void *work);

#endif
