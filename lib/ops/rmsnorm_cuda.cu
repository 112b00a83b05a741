/* y = x rstd g over rows of C elements. See rmsnorm.h. Memory-bound; warps and blocks take rows as in
 * layernorm_cuda.cu: a row that fits stays in registers between the sum and the result, and a longer one is read again.
 * The weight's gradient is a column sum (columns_cuda.h). */
#include "lib/ops/columns_cuda.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rows_cuda.h"

extern "C" {
kernel CUDA(rmsnorm_forward), CUDA(rmsnorm_backward_input), CUDA(rmsnorm_backward_weight);
extern const struct rmsnorm_pieces CUDA(rmsnorm_pieces);
}

__device__ static inline int64_t row_at(const struct rmsnorm_rows &rows, int64_t r) {
    return r / rows.of_token * rows.stride + r % rows.of_token * rows.C;
}

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
rmsnorm_backward_weight_slices(real *partial, const elem *x, const elem *dy, const real *rstd,
                               const struct rmsnorm_rows rows, int packed) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, c = ((int)blockIdx.x * 32 + threadIdx.x % 32) * GROUP, C = (int)rows.C;
    struct rows_range range = slice_rows(rows.n, blockIdx.y, gridDim.y);
    real dg[GROUP] = {0};
#pragma unroll 4
    for (int64_t r = range.first + warp; r < range.last && c < C; r += SUM_WARPS) {
        int64_t at = row_at(rows, r);
        group xs = group_load(x + at, c, C, packed), ds = group_load(dy + at, c, C, packed);
        for (int j = 0; j < GROUP; j++) dg[j] = fma(load(ds.x[j]), load(xs.x[j]) * rstd[r], dg[j]);
    }
    block_sum_groups(dg, shared);
    slice_store(partial, blockIdx.y, c, C, dg);
}

/* ---- norms of queries and keys: a warp takes a row; values are copied ---- */

__global__ static void __launch_bounds__(ROW_THREADS)
rmsnorm_squares_row_per_warp(real *sum, const elem *x, const struct rmsnorm_rows rows, int packed) {
    int lane = threadIdx.x % 32, C = (int)rows.C;
    FOR_ROWS_OF_WARP(r, rows.n) {
        real squares = 0;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS) {
            group v = group_load(x + row_at(rows, r), c, C, packed);
            for (int j = 0; j < GROUP; j++) squares = add_square(squares, load(v.x[j]));
        }
        squares = warp_sum(squares);
        if (lane == 0) sum[r] = squares;
    }
}

/* rstd[r] is the sum of squares before, and 1 / root after; all lanes read it before one writes. */
__global__ static void __launch_bounds__(ROW_THREADS)
rmsnorm_scale_row_per_warp(elem *y, real *rstd, const elem *x, const elem *__restrict__ g,
                           const struct rmsnorm_rows rows, int packed, real eps) {
    int lane = threadIdx.x % 32, C = (int)rows.C;
    FOR_ROWS_OF_WARP(r, rows.n) {
        int64_t at = row_at(rows, r);
        real s = rstd_of(rstd[r], (int)rows.all, eps);
        __syncwarp();
        if (lane == 0) rstd[r] = s;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            write_normal(y + at, group_load(x + at, c, C, packed), s, g, c, C, packed);
    }
}

__global__ static void __launch_bounds__(ROW_THREADS)
rmsnorm_products_row_per_warp(real *sum, const elem *dy, const elem *x, const real *rstd, const elem *__restrict__ g,
                              const struct rmsnorm_rows rows, int packed) {
    int lane = threadIdx.x % 32, C = (int)rows.C;
    FOR_ROWS_OF_WARP(r, rows.n) {
        int64_t at = row_at(rows, r);
        real products = 0;
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            products = add_products(products, group_load(x + at, c, C, packed), group_load(dy + at, c, C, packed),
                                    rstd[r], g, c, C, packed);
        products = warp_sum(products);
        if (lane == 0) sum[r] = products;
    }
}

__global__ static void __launch_bounds__(ROW_THREADS)
rmsnorm_gradient_row_per_warp(elem *dx, const elem *dy, const elem *x, const real *rstd, const real *sum,
                              const elem *__restrict__ g, const struct rmsnorm_rows rows, int packed, int accumulate) {
    int lane = threadIdx.x % 32, C = (int)rows.C;
    FOR_ROWS_OF_WARP(r, rows.n) {
        int64_t at = row_at(rows, r);
        for (int c = lane * GROUP; c < C; c += WARP_COLUMNS)
            write_gradient(dx + at, group_load(x + at, c, C, packed), group_load(dy + at, c, C, packed), rstd[r],
                           sum[r] / (real)rows.all, g, c, C, packed, accumulate);
    }
}

/* to = or += from */
__global__ static void __launch_bounds__(ROW_THREADS)
rmsnorm_copy_values(elem *to, const elem *from, const struct rmsnorm_rows rows, int64_t n, int accumulate) {
    int64_t keys = rows.of_token * rows.C;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at = i / rows.n_values * rows.stride + keys + i % rows.n_values;
        put(to + at, load(from[at]), accumulate);
    }
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
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    int64_t n_slices = column_slices(rows.n, rows.C, ELEM_DTYPE);
    dim3 grid((unsigned)ceil_div(rows.C, WARP_COLUMNS), (unsigned)n_slices);
    TRY(LAUNCHED(rmsnorm_backward_weight_slices, grid, SUM_THREADS, 0, stream_of(call), (real *)call->work, x, dy,
                 (const real *)call->out[1].data, rows, packs(rows.C, x, dy, NULL, NULL)));
    return columns_finish(call, 1, n_slices, rows.C);
}

static enum status copy_values(const struct call *call, elem *to, const elem *from, int accumulate) {
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    int64_t n = rows.n / rows.of_token * rows.n_values;
    if (n == 0 || (to == from && !accumulate)) return OK;
    return LAUNCHED(rmsnorm_copy_values, grid_of(n, ROW_THREADS), ROW_THREADS, 0, stream_of(call), to, from, rows, n,
                    accumulate);
}

static enum status squares(const struct call *call, void *sum) {
    const elem *x = (const elem *)call->in[0].data;
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    return LAUNCHED(rmsnorm_squares_row_per_warp, row_grid(rows.n), ROW_THREADS, 0, stream_of(call), (real *)sum, x,
                    rows, packs(rows.C, x, NULL, NULL, NULL));
}

static enum status scale(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *g = (const elem *)call->weight[0].data;
    elem *y = (elem *)call->out[0].data;
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    TRY(LAUNCHED(rmsnorm_scale_row_per_warp, row_grid(rows.n), ROW_THREADS, 0, stream_of(call), y,
                 (real *)call->out[1].data, x, g, rows, packs(rows.C, x, y, g, NULL), (real)rmsnorm_eps(call)));
    return copy_values(call, y, x, 0);
}

static enum status products(const struct call *call, void *sum) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    const elem *g = (const elem *)call->weight[0].data;
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    return LAUNCHED(rmsnorm_products_row_per_warp, row_grid(rows.n), ROW_THREADS, 0, stream_of(call), (real *)sum, dy,
                    x, (const real *)call->out[1].data, g, rows, packs(rows.C, x, dy, g, NULL));
}

static enum status gradient(const struct call *call, const void *sum) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    const elem *g = (const elem *)call->weight[0].data;
    elem *dx = (elem *)call->din[0].data;
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    TRY(LAUNCHED(rmsnorm_gradient_row_per_warp, row_grid(rows.n), ROW_THREADS, 0, stream_of(call), dx, dy, x,
                 (const real *)call->out[1].data, (const real *)sum, g, rows, packs(rows.C, x, dy, dx, g),
                 accumulates(call, 0)));
    return copy_values(call, dx, dy, accumulates(call, 0));
}

const struct rmsnorm_pieces CUDA(rmsnorm_pieces) = {squares, scale, products, gradient, CUDA(rmsnorm_backward_weight)};
