/* Copy gradients into a bucket, and add sums out of it: ZeRO's only kernels. See zero_bucket.c. */
#pragma once

#include "lib/device/device.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Copy shard r of a whole gradient, `bytes` long, to bucket + r stride, for r < n_ranks. bucket: where the gradient
 *  begins in rank 0's shard. In device memory, in order on the compute stream. @errors E_DEVICE  @collective{none} */
enum status zero_pack(const struct device *, void *bucket, int64_t stride, const void *gradient, int64_t bytes,
                      int n_ranks);

/** own[i] += sum[i] for n elements of a floating dtype; low precisions round once. Memory and order as above.
 *  @errors E_DEVICE  @collective{none} */
enum status zero_add(const struct device *, void *own, const void *sum, int64_t n, enum dtype);

/** The same on a CUDA device's stream: bucket and gradient, own and sum as above. @errors E_DEVICE
 *  @collective{none} */
enum status zero_pack_cuda(void *stream, void *bucket, int64_t stride, const void *gradient, int64_t bytes,
                           int n_ranks);
enum status zero_add_cuda(void *stream, void *own, const void *sum, int64_t n, enum dtype);

#ifdef __cplusplus
}
#endif
