/* The contract of the exercise "softmax": a CUDA kernel for rows of any length. */
#pragma once

#include "lib/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** y[r,c] = exp(x[r,c] - m_r) / sum_c exp(x[r,c] - m_r), m_r = max_c x[r,c], for each of R rows.
 *  @param y (R,C) written    @param x (R,C) borrowed; both device memory, aligned to 256 bytes; they do not overlap
 *  R, C >= 1, of any size. x may have -INFINITY (y is 0 there), but not in a whole row. Launches on the default stream
 *  (NULL). Each x is read once if C <= 1024, and at most three times otherwise. */
enum status softmax_rows(float *y, const float *x, int R, int C);

#ifdef __cplusplus
}
#endif
