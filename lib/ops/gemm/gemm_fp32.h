/* fp32 products on the CPU, by the packed kernel of gemm_packed.h. Private to gemm.c. */
#pragma once

#include "lib/ops/gemm/gemm.h"

/** Bytes of scratch: 0 unless A is transposed. The size is the same on every machine. */
int64_t gemm_fp32_work(const struct gemm *);

/** As gemm_run, for fp32, with rows of A, B and C that lie lda, ldb, ldc elements apart; threads are OpenMP's.
 *  Each thread takes 0.4 MiB of its stack.
 *  @param work gemm_fp32_work bytes */
void gemm_fp32_run(const struct gemm *, const float *a, int64_t lda, const float *b, int64_t ldb, const float *bias,
                   float *c, int64_t ldc, void *work);
