/* y = m x. See dropout.h. Memory-bound: 2 elements moved for each one computed; a warp takes a row. */
#include "lib/ops/dropout_cuda.h"

extern "C" { kernel CUDA(dropout_forward), CUDA(dropout_backward_input); }

/* y may be x: a lane reads a group before it writes it. */
__global__ static void __launch_bounds__(ROW_THREADS)
dropout_forward_warp_per_row(elem *y, const elem *x, struct dropped_rows rows) {
    FOR_ROWS_OF_WARP(r, rows.R) {
        struct place p = place_of(rows, r);
        for (int i = threadIdx.x % 32; i < rows.n_groups; i += 32) {
            int c = i * GROUP - rows.shift;
            group v = group_load(x + r * rows.C, c, rows.C, rows.packed);
            real m[GROUP];
            factors_forward(m, rows, p, r, i);
            for (int j = 0; j < GROUP; j++) m[j] *= load(v.x[j]);
            group_put(y + r * rows.C, c, rows.C, rows.packed, m, 0);
        }
    }
}

enum status CUDA(dropout_forward)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data;
    elem *y = (elem *)call->out[0].data;
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, x, y, NULL, NULL);
    return LAUNCHED(dropout_forward_warp_per_row, row_grid(rows.R), ROW_THREADS, 0, stream_of(call), y, x, rows);
}

enum status CUDA(dropout_backward_input)(const struct call *call) { return dropout_backward(call, NULL); }
