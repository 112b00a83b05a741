/* y = residual + m (x + b). See bias_dropout_residual.h.
 *
 * Memory-bound: forward moves 3 elements for each one computed, a warp takes a row. db is a column sum (columns_cuda.h) of m dy. */
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/columns_cuda.h"
#include "lib/ops/dropout_cuda.h"

extern "C" {
kernel CUDA(bias_dropout_residual_forward), CUDA(bias_dropout_residual_backward_input);
kernel CUDA(bias_dropout_residual_backward_weight);
}

/* y may lie over x, group for group. */
__global__ static void __launch_bounds__(ROW_THREADS)
bias_dropout_residual_forward_warp_per_row(elem *y, const elem *x, const elem *residual, const elem *__restrict__ b,
                                           struct dropped_rows rows) {
    FOR_ROWS_OF_WARP(r, rows.R) {
        struct place p = place_of(rows, r);
        int64_t at = r * rows.C;
        for (int i = threadIdx.x % 32; i < rows.n_groups; i += 32) {
            int c = i * GROUP - rows.shift;
            group v = group_load(x + at, c, rows.C, rows.packed), old = group_load(residual + at, c, rows.C, rows.packed);
            group bias = group_load(b, c, rows.C, rows.packed);
            real m[GROUP];
            factors_forward(m, rows, p, r, i);
            for (int j = 0; j < GROUP; j++) m[j] = load(old.x[j]) + m[j] * (load(v.x[j]) + load(bias.x[j]));
            group_put(y + at, c, rows.C, rows.packed, m, 0);
        }
    }
}

/* sum[j] += m dy over every SUM_WARPS-th row from `first` on, for the columns of group i */
__device__ static inline void add_rows(real *sum, const elem *dy, const struct dropped_rows &rows, int64_t first,
                                       int64_t last, int i) {
#pragma unroll 4
    for (int64_t r = first; r < last; r += SUM_WARPS) {
        group d = group_load(dy + r * rows.C, i * GROUP - rows.shift, rows.C, rows.packed);
        real m[GROUP];
        factors_backward(m, rows, place_of(rows, r), r, i);
        for (int j = 0; j < GROUP; j++) sum[j] += m[j] * load(d.x[j]);
    }
}

__global__ static void __launch_bounds__(SUM_THREADS)
bias_dropout_residual_backward_weight_slices(real *partial, const elem *dy, struct dropped_rows rows) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, i = (int)blockIdx.x * 32 + threadIdx.x % 32;
    struct rows_range slice = slice_rows(rows.R, blockIdx.y, gridDim.y);
    real sum[GROUP] = {0};
    if (i < rows.n_groups) add_rows(sum, dy, rows, slice.first + warp, slice.last, i);
    block_sum_groups(sum, shared);
    slice_store(partial, blockIdx.y, i * GROUP - rows.shift, rows.C, sum);
}

enum status CUDA(bias_dropout_residual_forward)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *residual = (const elem *)call->in[1].data;
    const elem *b = (const elem *)call->weight[0].data;
    elem *y = (elem *)call->out[0].data;
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, x, residual, b, y);
    LAUNCH(bias_dropout_residual_forward_warp_per_row, row_grid(rows.R), ROW_THREADS, 0, stream_of(call))
    (y, x, residual, b, rows);
    return gpu_launched("bias_dropout_residual_forward_warp_per_row");
}

/* dresidual = dy, unless it is dy's own memory. */
enum status CUDA(bias_dropout_residual_backward_input)(const struct call *call) {
    elem *dresidual = (elem *)call->din[1].data;
    return dropout_backward(call, dresidual == call->dout[0].data ? NULL : dresidual);
}

enum status CUDA(bias_dropout_residual_backward_weight)(const struct call *call) {
    const elem *dy = (const elem *)call->dout[0].data;
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, dy, NULL, NULL, NULL);
    int64_t n_slices = column_slices(rows.R, rows.C, ELEM_DTYPE);
    dim3 grid((unsigned)divide_up(rows.n_groups, 32), (unsigned)n_slices);
    LAUNCH(bias_dropout_residual_backward_weight_slices, grid, SUM_THREADS, 0, stream_of(call))
    ((real *)call->work, dy, rows);
    TRY(gpu_launched("bias_dropout_residual_backward_weight_slices"));
    return columns_finish(call, 1, n_slices, rows.C);
}
