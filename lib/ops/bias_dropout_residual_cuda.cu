/* y = residual + m (x + b). See bias_dropout_residual.h.
 *
 * Memory-bound: forward moves 3 elements for each one computed; a warp takes a row. db is a column sum
 * (columns_cuda.h) of m dy.
 *
 * As a fusion (fusion.h), one kernel runs both backward rows of a step: the kernel of db also writes dx and dresidual,
 * so that dy is read once and m is drawn once. The bits are those of the two separate kernels. */
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/columns_cuda.h"
#include "lib/ops/dropout_cuda.h"
#include "lib/ops/fusion.h"

extern "C" {
kernel CUDA(bias_dropout_residual_forward), CUDA(bias_dropout_residual_backward_input);
kernel CUDA(bias_dropout_residual_backward_weight);
fused_kernel CUDA(bias_dropout_residual_backward);
}

/* y may be x: a lane reads a group before it writes it. */
__global__ static void __launch_bounds__(ROW_THREADS)
bias_dropout_residual_forward_warp_per_row(elem *y, const elem *x, const elem *residual, const elem *__restrict__ b,
                                           struct dropped_rows rows) {
    FOR_ROWS_OF_WARP(r, rows.R) {
        struct place p = place_of(rows, r);
        int64_t at = r * rows.C;
        for (int i = threadIdx.x % 32; i < rows.n_groups; i += 32) {
            int c = i * GROUP - rows.shift;
            group v = group_load(x + at, c, rows.C, rows.packed),
                  old = group_load(residual + at, c, rows.C, rows.packed);
            group bias = b ? group_load(b, c, rows.C, rows.packed) : group_zero();
            real m[GROUP];
            factors_forward(m, rows, p, r, i);
            for (int j = 0; j < GROUP; j++) m[j] = dropped_sum(old.x[j], m[j], v.x[j], bias.x[j]);
            group_put(y + at, c, rows.C, rows.packed, m, 0);
        }
    }
}

/* sum[j] += m dy over every SUM_WARPS-th row from `first` on, for column j of group i */
__device__ static inline void add_rows(real *sum, const elem *dy, const struct dropped_rows &rows, int64_t first,
                                       int64_t last, int i) {
#pragma unroll 4
    for (int64_t r = first; r < last; r += SUM_WARPS) {
        group d = group_load(dy + r * rows.C, i * GROUP - rows.shift, rows.C, rows.packed);
        real m[GROUP];
        factors_backward(m, rows, place_of(rows, r), r, i);
        for (int j = 0; j < GROUP; j++) sum[j] = fma(m[j], load(d.x[j]), sum[j]);
    }
}

/* The same sum; also dx = or += m dy, and dresidual = or += dy if it is not NULL. AHEAD rows are loaded before the
 * first is written: dx may be dy, so the compiler cannot move a load before a write. */
enum { AHEAD = 4 };
struct inputs { elem *dx, *dresidual; int add, add_residual; };

__device__ static inline void add_and_write_rows(real *sum, const struct inputs &to, const elem *dy,
                                                 const struct dropped_rows &rows, int64_t first, int64_t last, int i) {
    int c = i * GROUP - rows.shift;
    for (int64_t top = first; top < last; top += AHEAD * SUM_WARPS) {
        group d[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (top + a * SUM_WARPS < last)
                d[a] = group_load(dy + (top + a * SUM_WARPS) * rows.C, c, rows.C, rows.packed);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            int64_t r = top + a * SUM_WARPS, at = r * rows.C;
            real m[GROUP], v[GROUP];
            if (r >= last) break;
            for (int j = 0; j < GROUP; j++) v[j] = load(d[a].x[j]);
            if (to.dresidual) group_put(to.dresidual + at, c, rows.C, rows.packed, v, to.add_residual);
            factors_backward(m, rows, place_of(rows, r), r, i);
            for (int j = 0; j < GROUP; j++) sum[j] = fma(m[j], v[j], sum[j]), v[j] *= m[j];
            group_put(to.dx + at, c, rows.C, rows.packed, v, to.add);
        }
    }
}

__global__ static void __launch_bounds__(SUM_THREADS)
bias_dropout_residual_backward_slices(real *partial, struct inputs to, const elem *dy, struct dropped_rows rows) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, i = (int)blockIdx.x * 32 + threadIdx.x % 32;
    struct rows_range slice = slice_rows(rows.R, blockIdx.y, gridDim.y);
    real sum[GROUP] = {0};
    if (i < rows.n_groups) add_and_write_rows(sum, to, dy, rows, slice.first + warp, slice.last, i);
    block_sum_groups(sum, shared);
    slice_store(partial, blockIdx.y, i * GROUP - rows.shift, rows.C, sum);
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
    const elem *b = call->step->n_weight > 0 ? (const elem *)call->weight[0].data : NULL;
    elem *y = (elem *)call->out[0].data;
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, x, residual, b, y);
    return LAUNCHED(bias_dropout_residual_forward_warp_per_row, row_grid(rows.R), ROW_THREADS, 0, stream_of(call), y, x,
                    residual, b, rows);
}

/* If dresidual is dy itself, it needs no write. */
enum status CUDA(bias_dropout_residual_backward_input)(const struct call *call) {
    elem *dresidual = (elem *)call->din[1].data;
    return dropout_backward(call, dresidual == call->dout[0].data ? NULL : dresidual);
}

enum status CUDA(bias_dropout_residual_backward_weight)(const struct call *call) {
    const elem *dy = (const elem *)call->dout[0].data;
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, dy, NULL, NULL, NULL);
    int64_t n_slices = column_slices(rows.R, rows.C, ELEM_DTYPE);
    dim3 grid((unsigned)ceil_div(rows.n_groups, 32), (unsigned)n_slices);
    TRY(LAUNCHED(bias_dropout_residual_backward_weight_slices, grid, SUM_THREADS, 0, stream_of(call),
                 (real *)call->work, dy, rows));
    return columns_finish(call, 1, n_slices, rows.C);
}

enum status CUDA(bias_dropout_residual_backward)(const struct call *weight, const struct call *input) {
    const elem *dy = (const elem *)input->dout[0].data;
    struct inputs to = {(elem *)input->din[0].data, (elem *)input->din[1].data, accumulates(input, 0),
                        accumulates(input, 1)};
    if (to.dresidual == dy) to.dresidual = NULL;
    struct dropped_rows rows = dropped_rows_of(input, input->in[0].type, to.dx, dy, to.dresidual, NULL);
    int64_t n_slices = column_slices(rows.R, rows.C, ELEM_DTYPE);
    dim3 grid((unsigned)ceil_div(rows.n_groups, 32), (unsigned)n_slices);
    TRY(LAUNCHED(bias_dropout_residual_backward_slices, grid, SUM_THREADS, 0, stream_of(input), (real *)weight->work,
                 to, dy, rows));
    return columns_finish(weight, 1, n_slices, rows.C);
}
