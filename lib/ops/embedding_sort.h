/* Scratch of the embedding's weight gradient on a GPU: the positions of the batch, sorted by their token's table
 * row. */
#pragma once

#include <stdint.h>

/* int32 position[R], and start[V + 1]: row k's positions, in ascending order, are position[start[k] .. start[k + 1] -
 * 1]. */
static inline int64_t embedding_sort_bytes(int64_t R, int64_t V) { return (R + V + 1) * (int64_t)sizeof(int32_t); }
