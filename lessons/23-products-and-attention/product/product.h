/* The contract of the exercise "product". */
#pragma once

#include "lib/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** c[i,j] = sum_k a[i,k] b[k,j], by tensor cores.
 *  @param c (M,N) written, fp32    @param a (M,K)    @param b (K,N) borrowed, both bf16 (__nv_bfloat16); all three are
 *  device memory, row-major, aligned to 256 bytes; they do not overlap
 *  M, N, K >= 1, of any size. Launches on the default stream (NULL). A block uses at most 30 KiB of shared memory. */
enum status product(float *c, const void *a, const void *b, int M, int N, int K);

#ifdef __cplusplus
}
#endif
