#include "lib/ops/pieces.h"

#include "lib/ops/kernels.h"
#include <string.h>

static enum status transpose_cpu(char *to, const char *from, int64_t rows, int64_t columns, int64_t bytes) {
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + (c * rows + r) * bytes, from + (r * columns + c) * bytes, (size_t)bytes);
    return OK;
}

enum status pieces_transpose(const struct device *device, void *to, const void *from, int64_t rows, int64_t columns,
                                int64_t bytes) {
    WITH_CUDA(if (device->kind == DEVICE_CUDA)
                  return pieces_transpose_cuda(device->stream, to, from, rows, columns, bytes);)
    (void)device;
    return transpose_cpu(to, from, rows, columns, bytes);
}
