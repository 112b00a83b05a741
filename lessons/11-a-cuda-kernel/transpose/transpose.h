/* The contract of the exercise "transpose". */
#pragma once

#include "lib/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** y[c,r] = x[r,c].
 *  @param y (C,R) written    @param x (R,C) borrowed; both device memory, aligned to 256 bytes; they do not overlap
 *  R, C >= 1, of any size. Launches on the default stream (NULL). Reads x and writes y in whole sectors, and has no
 *  bank conflicts in shared memory. */
enum status transpose(float *y, const float *x, int R, int C);

#ifdef __cplusplus
}
#endif
