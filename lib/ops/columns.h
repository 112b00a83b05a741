/* Sums over the rows of an (R, C) matrix, column by column, on a GPU: what the gradients of a layernorm's weights and
 * of a bias are. How the rows are cut is fixed by the shape alone, so that scratch is known before there is a device,
 * and the order of the sum, and with it its last bit, never changes.
 *
 * The matrix is cut into tiles of columns (16 bytes, at least 4 elements, for each lane of a warp) and slices of rows;
 * a block sums one tile of one slice. COLUMN_BLOCKS of them fill the largest GPU (132 multiprocessors) twice over with
 * 4 blocks each; a slice has at least COLUMN_ROWS rows, so that its sum costs more than the writing of it. */
#pragma once

#include "lib/base/integer.h"
#include "lib/device/dtype.h"

enum { COLUMN_BLOCKS = 1056, COLUMN_ROWS = 32 };

/** Columns of one tile. */
static inline int64_t column_tile(enum dtype d) {
    int64_t group = 16 / (int64_t)dtype_size(d);
    return 32 * (group < 4 ? 4 : group);
}

/** Slices that R rows are cut into: the same for every tile. */
static inline int64_t column_slices(int64_t R, int64_t C, enum dtype d) {
    int64_t tiles = (C + column_tile(d) - 1) / column_tile(d);
    int64_t wanted = ceil_div(COLUMN_BLOCKS, tiles), most = ceil_div(R, COLUMN_ROWS);
    return wanted < most ? wanted : most < 1 ? 1 : most;
}

/** Scratch for n_sums sums at a time: one row of partial sums for each slice. */
static inline int64_t column_sum_work(int64_t R, int64_t C, enum dtype d, int n_sums) {
    return n_sums * column_slices(R, C, d) * C * (int64_t)dtype_size(dtype_accumulator(d));
}
