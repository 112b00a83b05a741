/* y = x rstd g over rows of C elements. See rmsnorm.h. Memory-bound; warps and blocks take rows as in
 * layernorm_cuda.cu: a row that fits stays in registers between the sum and the result, and a longer one is read again.
 * The weight's gradient is a column sum (columns_cuda.h). */
#include "lib/ops/columns_cuda.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rows_cuda.h"

extern "C" { kernel CUDA(rmsnorm_forward), CUDA(rmsnorm_backward_input), CUDA(rmsnorm_backward_weight); }

__device__ static inline real rstd_of(real squares, int C, real eps) { return 1 / sqrt(squares / C + eps); }

/* y may be x, because a lane writes only elements that it has read, after all its reads. */
__device__ static inline void write_normal(elem *y, const group &x, real rstd, const elem *g, int c, int C,
                                           int packed) {
    group scale = group_load(g, c, C, packed);
    real v[GROUP];
    for (int j = 0; j < GROUP; j++) v[j] = load(x.x[j]) * rstd * load(scale.x[j]);
    group_put(y, c, C, packed, v, 0);
}

/* ---- forward ---- */

__global__ static void __launch_bounds__(32 * MAX_ROW_WARPS)
rmsnorm_forward_in_registers(elem *y, real *rstd, const elem *x, const elem *__restrict__ g, int64_t R, int C,
                             real eps) {
    __shared__ real shared[32];
    int first = threadIdx.x * GROUP, step = blockDim.x * GROUP;
    FOR_ROWS_OF_BLOCK(r, R) {
        group row[KEPT];
        real squares = 0;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            row[k] = first + k * step < C ? group_load(x + r * C, first + k * step, C, 1) : group_zero();
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            for (int j = 0; j < GROUP; j++) squares = add_square(squares, load(row[k].x[j]));
        real s = rstd_of(only_sum_of_row(squares, shared), C, eps);
        if (threadIdx.x == 0) rstd[r] = s;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < C) write_normal(y + r * C, row[k], s, g, first + k * step, C, 1);
    }
}

__global__ static void __launch_bounds__(ROW_THREADS)
rmsnorm_forward_reread(elem *y, real *rstd, const elem *x, const elem *__restrict__ g, int64_t R, int C, int packed,
                       real eps) {
    int lane = threadIdx.x % 32;
    FOR_ROWS_OF_WARP(r, R) {
        real squares = 0;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS) {
            group v = group_load(x + r * C, c, C, packed);
            for (int j = 0; j < GROUP; j++) squares = add_square(squares, load(v.x[j]));
        }
        real s = rstd_of(warp_sum(squares), C, eps);
        if (lane == 0) rstd[r] = s;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            write_normal(y + r * C, group_load(x + r * C, c, C, packed), s, g, c, C, packed);
    }
}

/* ---- backward_input ---- */

/* Add a group's d n to the sum, d = dy g. dy and g are zero beyond the row. */
__device__ static inline real add_products(real sum, const group &x, const group &dy, real rstd, const elem *g, int c,
                                           int C, int packed) {
    group scale = group_load(g, c, C, packed);
    for (int j = 0; j < GROUP; j++) sum = fma(load(dy.x[j]) * load(scale.x[j]), load(x.x[j]) * rstd, sum);
    return sum;
}

/* dx may be dy. */
__device__ static inline void write_gradient(elem *dx, const group &x, const group &dy, real rstd, real mean_dn,
                                             const elem *g, int c, int C, int packed, int accumulate) {
    group scale = group_load(g, c, C, packed);
    real v[GROUP];
    for (int j = 0; j < GROUP; j++)
        v[j] = rstd * fma(-load(x.x[j]) * rstd, mean_dn, load(dy.x[j]) * load(scale.x[j]));
    group_put(dx, c, C, packed, v, accumulate);
}

__global__ static void __launch_bounds__(32 * MAX_ROW_WARPS)
rmsnorm_backward_in_registers(elem *dx, const elem *dy, const elem *x, const real *rstd, const elem *__restrict__ g,
                              int64_t R, int C, int accumulate) {
    __shared__ real shared[32];
    int first = threadIdx.x * GROUP, step = blockDim.x * GROUP;
    FOR_ROWS_OF_BLOCK(r, R) {
        group x_row[KEPT], dy_row[KEPT];
        real s = rstd[r], sum = 0;
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            x_row[k] = first + k * step < C ? group_load(x + r * C, first + k * step, C, 1) : group_zero();
            dy_row[k] = first + k * step < C ? group_load(dy + r * C, first + k * step, C, 1) : group_zero();
        }
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < C) sum = add_products(sum, x_row[k], dy_row[k], s, g, first + k * step, C, 1);
        real mean_dn = only_sum_of_row(sum, shared) / C;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < C)
                write_gradient(dx + r * C, x_row[k], dy_row[k], s, mean_dn, g, first + k * step, C, 1, accumulate);
    }
}

__global__ static void __launch_bounds__(ROW_THREADS)
rmsnorm_backward_reread(elem *dx, const elem *dy, const elem *x, const real *rstd, const elem *__restrict__ g,
                        int64_t R, int C, int packed, int accumulate) {
    int lane = threadIdx.x % 32;
    FOR_ROWS_OF_WARP(r, R) {
        real s = rstd[r], sum = 0;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            sum = add_products(sum, group_load(x + r * C, c, C, packed), group_load(dy + r * C, c, C, packed), s, g, c,
                               C, packed);
        real mean_dn = warp_sum(sum) / C;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            write_gradient(dx + r * C, group_load(x + r * C, c, C, packed), group_load(dy + r * C, c, C, packed), s,
                           mean_dn, g, c, C, packed, accumulate);
    }
}

/* ---- backward_weight ---- */

/* dg[c] += dy[r,c] n[r,c] over every SUM_WARPS-th row of the slice */
__global__ static void __launch_bounds__(SUM_THREADS)
rmsnorm_backward_weight_slices(real *partial, const elem *x, const elem *dy, const real *rstd, int64_t R, int C,
                               int packed) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, c = ((int)blockIdx.x * 32 + threadIdx.x % 32) * GROUP;
    struct rows_range rows = slice_rows(R, blockIdx.y, gridDim.y);
    real dg[GROUP] = {0};
#pragma unroll 4
    for (int64_t r = rows.first + warp; r < rows.last && c < C; r += SUM_WARPS) {
        group xs = group_load(x + r * C, c, C, packed), ds = group_load(dy + r * C, c, C, packed);
        for (int j = 0; j < GROUP; j++) dg[j] = fma(load(ds.x[j]), load(xs.x[j]) * rstd[r], dg[j]);
    }
    block_sum_groups(dg, shared);
    slice_store(partial, blockIdx.y, c, C, dg);
}

/* ---- launchers ---- */

enum status CUDA(rmsnorm_forward)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *g = (const elem *)call->weight[0].data;
    elem *y = (elem *)call->out[0].data;
    real *rstd = (real *)call->out[1].data, eps = (real)rmsnorm_eps(call);
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
    int packed = packs(C, x, y, g, NULL);
    struct rows_launch l = rows_launch(R, C);
    if (packed && fits_in_registers(C))
        LAUNCH(rmsnorm_forward_in_registers, l.grid, l.block, 0, stream_of(call))(y, rstd, x, g, R, (int)C, eps);
    else
        LAUNCH(rmsnorm_forward_reread, row_grid(R), ROW_THREADS, 0, stream_of(call))
        (y, rstd, x, g, R, (int)C, packed, eps);
    return gpu_launched("rmsnorm_forward");
}

enum status CUDA(rmsnorm_backward_input)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    const elem *g = (const elem *)call->weight[0].data;
    elem *dx = (elem *)call->din[0].data;
    const real *rstd = (const real *)call->out[1].data;
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
    int packed = packs(C, x, dy, dx, g), add = accumulates(call, 0);
    struct rows_launch l = rows_launch(R, C);
    if (packed && fits_in_registers(C))
        LAUNCH(rmsnorm_backward_in_registers, l.grid, l.block, 0, stream_of(call))
        (dx, dy, x, rstd, g, R, (int)C, add);
    else
        LAUNCH(rmsnorm_backward_reread, row_grid(R), ROW_THREADS, 0, stream_of(call))
        (dx, dy, x, rstd, g, R, (int)C, packed, add);
    return gpu_launched("rmsnorm_backward_input");
}

enum status CUDA(rmsnorm_backward_weight)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C, n_slices = column_slices(R, C, ELEM_DTYPE);
    dim3 grid((unsigned)ceil_div(C, WARP_COLUMNS), (unsigned)n_slices);
    TRY(LAUNCHED(rmsnorm_backward_weight_slices, grid, SUM_THREADS, 0, stream_of(call), (real *)call->work, x, dy,
                 (const real *)call->out[1].data, R, (int)C, packs(C, x, dy, NULL, NULL)));
    return columns_finish(call, 1, n_slices, C);
}
