/* Many tensors in one launch: each is cut into chunks of a fixed size, and the chunks of all are numbered through.
 *
 *   first[i]      the number of tensor i's first chunk; first[n]: how many chunks there are
 *
 * The table of tensors travels by value, as the kernel's argument (4 KB at most): no copy to the device, no memory of
 * its own. As PyTorch's multi_tensor_apply, which stores a tensor number for every block instead; a search needs less
 * room, so that hundreds of tensors take a handful of launches. Only .cu files include this. */
#pragma once

#include "lib/device/gpu.h"

/* Which of n tensors has this chunk: the i with first[i] <= chunk < first[i + 1]. No tensor is empty. */
__device__ static inline int tensor_of_chunk(const int32_t *first, int n, int32_t chunk) {
    int low = 0, high = n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (first[middle] <= chunk) low = middle;
        else high = middle - 1;
    }
    return low;
}
