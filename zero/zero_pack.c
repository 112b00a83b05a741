#include "zero/zero_pack.h"

#include "lib/ops/kernels.h"
#include "lib/ops/reduce.h"
#include <string.h>

static enum status pack_cpu(char *bucket, int64_t stride, const char *gradient, int64_t bytes, int n_ranks) {
    for (int r = 0; r < n_ranks; r++) memcpy(bucket + r * stride, gradient + r * bytes, (size_t)bytes);
    return OK;
}

enum status zero_pack(const struct device *device, void *bucket, int64_t stride, const void *gradient, int64_t bytes,
                      int n_ranks) {
    WITH_CUDA(if (device->kind == DEVICE_CUDA)
                  return zero_pack_cuda(device->stream, bucket, stride, gradient, bytes, n_ranks);)
    (void)device;
    return pack_cpu(bucket, stride, gradient, bytes, n_ranks);
}

enum status zero_add(const struct device *device, void *own, const void *sum, int64_t n, enum dtype dtype) {
    WITH_CUDA(if (device->kind == DEVICE_CUDA) return zero_add_cuda(device->stream, own, sum, n, dtype);)
    return reduce_accumulate(device, own, sum, n, dtype);
}
