/* Reductions over a whole buffer, for the gradient norm and the overflow check of mixed precision.
 *
 * The buffer is cut into blocks of a fixed size; threads divide the blocks; the blocks' results are combined in order.
 * So the result depends on the content and the length only, not on the number of threads. */
#ifndef TRIVIUM_OPS_REDUCE_H
#define TRIVIUM_OPS_REDUCE_H

#include "lib/device/dtype.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** sum_i x[i]^2 in double. x: n elements of a floating dtype, borrowed. NaN and infinity propagate. */
double reduce_sum_of_squares(const void *x, enum dtype, int64_t n);

/** No element is NaN or infinite. */
bool reduce_all_finite(const void *x, enum dtype, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
