/* Reductions over many buffers at once, for the gradient norm, the overflow check of mixed precision, and the loss of a
 * step.
 *
 * Sums are in double. The result depends only on the contents and lengths of the buffers:
 *
 *   CPU    a buffer is cut into blocks of a fixed size, and threads divide the blocks; the blocks' sums are added in
 *          order, and then the buffers' sums
 *   CUDA   a launch reads up to 128 buffers, and the buffers alone determine its grid; each thread block writes one
 *          partial sum to `work`, and one block adds the partial sums in order
 *
 * Work is issued in order on the device's compute stream, and results stay in device memory, so the host never
 * waits. */
#pragma once

#include "lib/device/device.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/** n elements of a floating dtype in device memory, borrowed; any element of a tensor may be x[0]. NULL if n is 0. */
struct reduce_buffer { const void *x; enum dtype dtype; int64_t n; };

/** Bytes of scratch, aligned to 8, that the reductions below need; 0 on the CPU. */
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

/** sum[i] += x[i], n elements of a floating dtype; 16-bit types round once. Only on the CPU. @errors as above */
enum status reduce_accumulate(const struct device *, void *sum, const void *x, int64_t n, enum dtype);

#ifdef __cplusplus
}
#endif
