/* Scratch of the embedding's weight gradient on a GPU: the positions, sorted by their token's row of the table. */
#pragma once

#include <stdint.h>

/* int32 position[R], and start[V + 1]: row k's positions, in ascending order, are position[start[k] .. start[k + 1] -
 * 1]. */
static inline int64_t embedding_sort_bytes(int64_t R, int64_t V) { return (R + V + 1) * (int64_t)sizeof(int32_t); }
