/* Transpose a matrix whose elements are pieces of memory. This converts between a batch of whole sequences and the
 * ranks' shards of it; see tp_sequence.c. */
#pragma once

#include "lib/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** to[column][row] = from[row][column], elements of `bytes` bytes, in device memory; to and from do not overlap.
 *  In order on the compute stream. @errors E_DEVICE  @collective{none} */
enum status pieces_transpose(const struct device *, void *to, const void *from, int64_t rows, int64_t columns,
                                int64_t bytes);

/** The same on a CUDA stream: to and from as above. @errors E_DEVICE  @collective{none} */
enum status pieces_transpose_cuda(void *stream, void *to, const void *from, int64_t rows, int64_t columns,
                                     int64_t bytes);

#ifdef __cplusplus
}
#endif
