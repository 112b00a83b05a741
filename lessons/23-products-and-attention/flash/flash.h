/* The contract of the exercise "flash". */
#pragma once

#include "lib/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FLASH_MAX_D = 64 };

/** Causal attention of one head, forward. For each query t, over the keys j <= t:
 *    z_j = scale (q[t] . k[j])    lse[t] = log sum_j e^z_j    y[t] = sum_j e^(z_j - lse[t]) v[j]
 *  @param y (T,D), lse (T) written    @param q, k, v (T,D) borrowed; all are fp32, device memory, aligned to 256 bytes;
 *  they do not overlap
 *  T >= 1 and 1 <= D <= FLASH_MAX_D, of any size. Launches on the default stream (NULL). No array of scores: of T x T
 *  numbers nothing is stored. A block uses at most 48 KiB of shared memory. */
enum status flash(float *y, float *lse, const float *q, const float *k, const float *v, int T, int D, float scale);

#ifdef __cplusplus
}
#endif
