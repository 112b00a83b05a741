/* y = (x - mean) rstd g + b over rows of C elements. See layernorm.h.
 *
 * Memory-bound: 2 elements moved for each one computed forward, 3 backward. A row is read once and stays in registers,
 * KEPT groups a thread. A warp takes a row of up to 128 groups (1024 columns of bf16, 512 of fp32); a block of up to 16
 * warps takes a row of up to 16 times as many. More groups per thread would leave too few warps to hide the latency of
 * memory. A longer row, or one that is not `packed`, is read again for each pass, from the cache. All kernels do the
 * CPU's two passes: the mean, then the mean of squared deviations.
 *
 * C alone determines which terms a thread adds, and threads are added in a fixed order, so the bits never change. The
 * weights' gradients are column sums (columns_cuda.h). If the two backward rows follow each other, one kernel runs both
 * (layernorm_backward_cuda.cu). */
#include "lib/ops/columns_cuda.h"
#include "lib/ops/layernorm_cuda.h"

extern "C" { kernel CUDA(layernorm_forward), CUDA(layernorm_backward_input), CUDA(layernorm_backward_weight); }

__device__ static inline struct statistics statistics_of(real mean, real sum_of_squares, int C, real eps) {
    struct statistics s = {mean, 1 / sqrt(sum_of_squares / C + eps)};
    return s;
}

/* y may be x, because a lane writes only elements that it has read, after all its reads. */
__device__ static inline void write_normal(elem *y, const group &x, struct statistics s, const elem *g, const elem *b,
                                           int c, int C, int packed) {
    group scale = group_load(g, c, C, packed), shift = group_load(b, c, C, packed);
    real v[GROUP];
    for (int j = 0; j < GROUP; j++) v[j] = scaled(normal(x.x[j], s), scale.x[j], shift.x[j]);
    group_put(y, c, C, packed, v, 0);
}

/* ---- forward ---- */

__global__ static void __launch_bounds__(32 * MAX_ROW_WARPS)
layernorm_forward_in_registers(elem *y, struct statistics *statistics, const elem *x, const elem *__restrict__ g,
                               const elem *__restrict__ b, int64_t R, int C, real eps) {
    __shared__ real shared[32];
    int first = threadIdx.x * GROUP, step = blockDim.x * GROUP;
    FOR_ROWS_OF_BLOCK(r, R) {
        group row[KEPT];
        real sum = 0, squares = 0;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            row[k] = first + k * step < C ? group_load(x + r * C, first + k * step, C, 1) : group_zero();
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            for (int j = 0; j < GROUP; j++) sum += load(row[k].x[j]);
        real mean = row_sum(sum, shared) / C;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            for (int j = 0; j < GROUP && first + k * step < C; j++)
                squares = add_square(squares, load(row[k].x[j]) - mean);
        struct statistics s = statistics_of(mean, row_sum(squares, shared), C, eps);
        if (threadIdx.x == 0) statistics[r] = s;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < C) write_normal(y + r * C, row[k], s, g, b, first + k * step, C, 1);
    }
}

__global__ static void __launch_bounds__(ROW_THREADS)
layernorm_forward_reread(elem *y, struct statistics *statistics, const elem *x, const elem *__restrict__ g,
                         const elem *__restrict__ b, int64_t R, int C, int packed, real eps) {
    int lane = threadIdx.x % 32;
    FOR_ROWS_OF_WARP(r, R) {
        real sum = 0, squares = 0;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS) {
            group v = group_load(x + r * C, c, C, packed);
            for (int j = 0; j < GROUP; j++) sum += load(v.x[j]);
        }
        real mean = warp_sum(sum) / C;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS) {
            group v = group_load(x + r * C, c, C, packed);
            for (int j = 0; j < GROUP && c + j < C; j++) squares = add_square(squares, load(v.x[j]) - mean);
        }
        struct statistics s = statistics_of(mean, warp_sum(squares), C, eps);
        if (lane == 0) statistics[r] = s;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            write_normal(y + r * C, group_load(x + r * C, c, C, packed), s, g, b, c, C, packed);
    }
}

/* ---- backward_input ---- */

__global__ static void __launch_bounds__(32 * MAX_ROW_WARPS)
layernorm_backward_in_registers(elem *dx, const elem *dy, const elem *x, const struct statistics *statistics,
                                const elem *__restrict__ g, int64_t R, int C, int accumulate) {
    __shared__ real shared[32];
    int first = threadIdx.x * GROUP, step = blockDim.x * GROUP;
    FOR_ROWS_OF_BLOCK(r, R) {
        group x_row[KEPT], dy_row[KEPT];
        struct statistics s = statistics[r];
        struct sums sums = {0, 0};
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            x_row[k] = first + k * step < C ? group_load(x + r * C, first + k * step, C, 1) : group_zero();
            dy_row[k] = first + k * step < C ? group_load(dy + r * C, first + k * step, C, 1) : group_zero();
        }
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < C) add_to_sums(&sums, x_row[k], dy_row[k], s, g, first + k * step, C, 1);
        struct sums mean = {row_sum(sums.d, shared) / C, row_sum(sums.dn, shared) / C};
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < C)
                write_gradient(dx + r * C, x_row[k], dy_row[k], s, mean, g, first + k * step, C, 1, accumulate);
    }
}

__global__ static void __launch_bounds__(ROW_THREADS)
layernorm_backward_reread(elem *dx, const elem *dy, const elem *x, const struct statistics *statistics,
                          const elem *__restrict__ g, int64_t R, int C, int packed, int accumulate) {
    int lane = threadIdx.x % 32;
    FOR_ROWS_OF_WARP(r, R) {
        struct statistics s = statistics[r];
        struct sums sums = {0, 0};
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            add_to_sums(&sums, group_load(x + r * C, c, C, packed), group_load(dy + r * C, c, C, packed), s, g, c, C,
                        packed);
        struct sums mean = {warp_sum(sums.d) / C, warp_sum(sums.dn) / C};
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            write_gradient(dx + r * C, group_load(x + r * C, c, C, packed), group_load(dy + r * C, c, C, packed), s,
                           mean, g, c, C, packed, accumulate);
    }
}

/* ---- backward_weight ---- */

/* dg[c] += dy[r,c] n[r,c]   db[c] += dy[r,c]   over every SUM_WARPS-th row from `first` on */
__device__ static inline void add_rows(real *dg, real *db, const elem *x, const elem *dy,
                                       const struct statistics *statistics, int64_t first, int64_t last, int c, int C,
                                       int packed) {
#pragma unroll 4
    for (int64_t r = first; r < last; r += SUM_WARPS) {
        group xs = group_load(x + r * C, c, C, packed), ds = group_load(dy + r * C, c, C, packed);
        struct statistics s = statistics[r];
        add_row(dg, db, xs, ds, s);
    }
}

__global__ static void __launch_bounds__(SUM_THREADS)
layernorm_backward_weight_slices(real *partial, const elem *x, const elem *dy, const struct statistics *statistics,
                                 int64_t R, int C, int packed) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, c = ((int)blockIdx.x * 32 + threadIdx.x % 32) * GROUP;
    int64_t slice = blockIdx.y, n_slices = gridDim.y;
    struct rows_range rows = slice_rows(R, slice, n_slices);
    real dg[GROUP] = {0}, db[GROUP] = {0};
    if (c < C && packed) add_rows(dg, db, x, dy, statistics, rows.first + warp, rows.last, c, C, 1);
    else if (c < C) add_rows(dg, db, x, dy, statistics, rows.first + warp, rows.last, c, C, 0);
    block_sum_groups(dg, shared);
    slice_store(partial, slice, c, C, dg);
    __syncthreads();
    block_sum_groups(db, shared);
    slice_store(partial + n_slices * C, slice, c, C, db);
}

/* ---- launchers ---- */

enum status CUDA(layernorm_forward)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *g = (const elem *)call->weight[0].data;
    const elem *b = (const elem *)call->weight[1].data;
    elem *y = (elem *)call->out[0].data;
    struct statistics *statistics = (struct statistics *)call->out[1].data;
    real eps = (real)layernorm_eps(call);
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
    int packed = packs(C, x, y, g, b);
    struct rows_launch l = rows_launch(R, C);
    if (packed && fits_in_registers(C))
        LAUNCH(layernorm_forward_in_registers, l.grid, l.block, 0, stream_of(call))
        (y, statistics, x, g, b, R, (int)C, eps);
    else
        LAUNCH(layernorm_forward_reread, row_grid(R), ROW_THREADS, 0, stream_of(call))
        (y, statistics, x, g, b, R, (int)C, packed, eps);
    return gpu_launched("layernorm_forward");
}

enum status CUDA(layernorm_backward_input)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    const elem *g = (const elem *)call->weight[0].data;
    elem *dx = (elem *)call->din[0].data;
    const struct statistics *statistics = (const struct statistics *)call->out[1].data;
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
    int packed = packs(C, x, dy, dx, g), add = accumulates(call, 0);
    struct rows_launch l = rows_launch(R, C);
    if (packed && fits_in_registers(C))
        LAUNCH(layernorm_backward_in_registers, l.grid, l.block, 0, stream_of(call))
        (dx, dy, x, statistics, g, R, (int)C, add);
    else
        LAUNCH(layernorm_backward_reread, row_grid(R), ROW_THREADS, 0, stream_of(call))
        (dx, dy, x, statistics, g, R, (int)C, packed, add);
    return gpu_launched("layernorm_backward_input");
}

enum status CUDA(layernorm_backward_weight)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C, n_slices = layernorm_slices(R, C, ELEM_DTYPE);
    dim3 grid((unsigned)ceil_div(C, WARP_COLUMNS), (unsigned)n_slices);
    TRY(LAUNCHED(layernorm_backward_weight_slices, grid, SUM_THREADS, 0, stream_of(call), (real *)call->work, x, dy,
                 (const struct statistics *)call->out[1].data, R, (int)C, packs(C, x, dy, NULL, NULL)));
    return columns_finish(call, 2, n_slices, C);
}
