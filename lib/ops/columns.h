/* Column sums of an (R, C) matrix on a GPU: the gradients of a layernorm's weights and of a bias. The shape alone
 * determines how the rows are cut. So scratch is known before a device exists, and the order of a sum, with its last
 * bit, never changes.
 *
 * The matrix is cut into tiles of columns (16 bytes, at least 4 elements, for each lane of a warp) and slices of rows.
 * A block sums one tile of one slice. COLUMN_BLOCKS blocks fill the largest GPU (132 multiprocessors, 4 blocks each)
 * twice. A slice has at least COLUMN_ROWS rows, so that reading it takes longer than writing its sum. */
#pragma once

#include "lib/base/integer.h"
#include "lib/device/dtype.h"

enum { COLUMN_BLOCKS = 1056, COLUMN_ROWS = 32 };

/** Columns of one tile. */
static inline int64_t column_tile(enum dtype d) {
    int64_t group = 16 / (int64_t)dtype_size(d);
    return 32 * (group < 4 ? 4 : group);
}

/** The number of slices that R rows are cut into, the same for every tile. */
static inline int64_t column_slices(int64_t R, int64_t C, enum dtype d) {
    int64_t tiles = (C + column_tile(d) - 1) / column_tile(d);
    int64_t wanted = ceil_div(COLUMN_BLOCKS, tiles), most = ceil_div(R, COLUMN_ROWS);
    return wanted < most ? wanted : most < 1 ? 1 : most;
}

/** Scratch for n_sums sums at a time: one row of partial sums for each slice. */
static inline int64_t column_sum_work(int64_t R, int64_t C, enum dtype d, int n_sums) {
    return n_sums * column_slices(R, C, d) * C * (int64_t)dtype_size(dtype_accumulator(d));
}
