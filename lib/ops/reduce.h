/* Reductions over many buffers at once, for the gradient norm, the overflow check of mixed precision, and the loss of a
 * step.
 *
 * Sums are in double. The result depends on the contents and the lengths only:
 *
 *   CPU    a buffer is cut into blocks of a fixed size; threads divide the blocks; the blocks' results are combined in
 *          order, and then the buffers'
 *   CUDA   a grid of fixed size walks over all buffers, hundreds of them in a launch; each thread block leaves one
 *          partial sum in `work`, and one block adds the partials in order
 *
 * Everything is issued in order on the device's compute stream, and the results stay in the device's memory: nothing
 * waits. */
#pragma once

#include "lib/device/device.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/** n elements of a floating dtype in the device's memory, borrowed; aligned to an element at least. NULL if n is 0. */
struct reduce_buffer { const void *x; enum dtype dtype; int64_t n; };

/** Bytes of scratch that the reductions below want, aligned to 8; none on the CPU. */
int64_t reduce_work(enum device_kind);

/** *sum = the sum over all buffers of x[i]^2. NaN and infinity propagate. sum: one double in the device's memory. work:
 *  reduce_work bytes.
 *  @errors E_CONFIG for a dtype that is not floating, E_DEVICE  @collective{none} */
enum status reduce_sum_of_squares(const struct device *, const struct reduce_buffer *, int n, double *sum, void *work);

/** *count = 0 if every element of every buffer is finite, else some positive number. count: in the device's memory.
 *  @errors as above */
enum status reduce_non_finite(const struct device *, const struct reduce_buffer *, int n, double *count, void *work);

/** *sum += x[0], an element of a floating dtype; both in the device's memory. @errors as above */
enum status reduce_add(const struct device *, double *sum, const void *x, enum dtype);

/** sum[i] += x[i], n elements of a floating dtype; 16 bits round once. On the CPU alone. @errors as above */
enum status reduce_accumulate(const struct device *, void *sum, const void *x, int64_t n, enum dtype);

#ifdef __cplusplus
}
#endif
