/* Many tensors in one launch: each tensor is cut into chunks of a fixed size, and the chunks are numbered over all
 * tensors.
 *
 *   first[i]      the number of tensor i's first chunk; first[n]: the number of chunks
 *
 * The table of tensors is passed by value, as the kernel's argument (4 KB at most), so it needs no copy and no device
 * memory. PyTorch's multi_tensor_apply does the same, but stores a tensor number for every block. A search in `first`
 * needs less room, so hundreds of tensors need only a few launches. Only .cu files include this. */
#pragma once

#include "lib/device/gpu.h"

/* The tensor i that has this chunk: first[i] <= chunk < first[i + 1]. No tensor may be empty. */
__device__ static inline int tensor_of_chunk(const int32_t *first, int n, int32_t chunk) {
    int low = 0, high = n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (first[middle] <= chunk) low = middle;
        else high = middle - 1;
    }
    return low;
}
