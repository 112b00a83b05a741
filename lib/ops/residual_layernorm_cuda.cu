/* s = residual + m (x + bias), y = (s - mean) rstd g + b: bias_dropout_residual and layernorm, forward, in one kernel.
 * See their headers.
 *
 * Memory-bound. The two separate kernels move five elements for each one computed: x, residual and s, then s and y.
 * This kernel moves four, because it normalises s while the row is in registers, and saves one launch. Warps take rows,
 * and threads add terms to the mean, as in layernorm_cuda.cu.
 *
 * The bits are those of the two separate kernels: s is rounded to the element type before it is normalised, dropout
 * draws by the same counters, and sums have the same order. A change to one of the files needs the same change here;
 * test_fusion.c compares the bits. The separate kernels run for rows that layernorm cannot keep in registers: rows that
 * are too long or not `packed`. */
#include "lib/ops/dropout_cuda.h"
#include "lib/ops/fusion.h"
#include "lib/ops/layernorm_cuda.h"

extern "C" {
fused_kernel CUDA(residual_layernorm_forward);
kernel CUDA(bias_dropout_residual_forward), CUDA(layernorm_forward);
}

/* Group i of s in row r, rounded. factors_forward also writes the mask, if the step stores it. */
__device__ static inline group residual_sum(const group &x, const group &old, const elem *bias,
                                            const struct dropped_rows &rows, struct place p, int64_t r, int i) {
    group shift = group_load(bias, i * GROUP, rows.C, 1), sum;
    real m[GROUP];
    factors_forward(m, rows, p, r, i);
    for (int j = 0; j < GROUP; j++) sum.x[j] = store(dropped_sum(old.x[j], m[j], x.x[j], shift.x[j]));
    return sum;
}

__device__ static inline group normal(const group &x, struct statistics s, const elem *g, const elem *b, int c, int C) {
    group scale = group_load(g, c, C, 1), shift = group_load(b, c, C, 1), y;
    for (int j = 0; j < GROUP; j++) y.x[j] = store(scaled(normal(x.x[j], s), scale.x[j], shift.x[j]));
    return y;
}

/* total (s) may be x, and y may be total: a thread writes only groups that it has read, and writes total before y. */
__global__ static void __launch_bounds__(32 * MAX_ROW_WARPS)
    residual_layernorm_forward_in_registers(elem *total, elem *y, struct statistics *statistics, const elem *x,
                                            const elem *residual, const elem *__restrict__ bias,
                                            const elem *__restrict__ g, const elem *__restrict__ b,
                                            struct dropped_rows rows, real eps) {
    __shared__ real shared[32];
    int C = rows.C, first = threadIdx.x, step = blockDim.x;     /* of groups */
    FOR_ROWS_OF_BLOCK(r, rows.R) {
        struct place p = place_of(rows, r);
        group row[KEPT], old[KEPT];
        real sum = 0, squares = 0;
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int c = (first + k * step) * GROUP;
            row[k] = c < C ? group_load(x + r * C, c, C, 1) : group_zero();
            old[k] = c < C ? group_load(residual + r * C, c, C, 1) : group_zero();
        }
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < rows.n_groups) {
                row[k] = residual_sum(row[k], old[k], bias, rows, p, r, first + k * step);
                store_whole((group *)(total + r * C) + first + k * step, row[k]);
            }
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            for (int j = 0; j < GROUP; j++) sum += load(row[k].x[j]);
        real mean = row_sum(sum, shared) / C;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            for (int j = 0; j < GROUP && first + k * step < rows.n_groups; j++)
                squares = add_square(squares, load(row[k].x[j]) - mean);
        struct statistics s = {mean, 1 / sqrt(row_sum(squares, shared) / C + eps)};
        if (threadIdx.x == 0) statistics[r] = s;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
            if (first + k * step < rows.n_groups)
                store_whole((group *)(y + r * C) + first + k * step,
                            normal(row[k], s, g, b, (first + k * step) * GROUP, C));
    }
}

static enum status run_apart(const struct call *first, const struct call *second) {
    TRY(CUDA(bias_dropout_residual_forward)(first));
    return CUDA(layernorm_forward)(second);
}

enum status CUDA(residual_layernorm_forward)(const struct call *first, const struct call *second) {
    const elem *x = (const elem *)first->in[0].data, *residual = (const elem *)first->in[1].data;
    const elem *bias = (const elem *)first->weight[0].data;
    const elem *g = (const elem *)second->weight[0].data, *b = (const elem *)second->weight[1].data;
    elem *total = (elem *)first->out[0].data, *y = (elem *)second->out[0].data;
    struct dropped_rows rows = dropped_rows_of(first, first->in[0].type, x, residual, bias, total);
    int64_t warps = ceil_div(rows.C, KEPT * WARP_COLUMNS), of_block = warps == 1 ? ROW_WARPS : 1;
    if (!rows.packed || !packs(rows.C, y, g, b, NULL) || warps > MAX_ROW_WARPS) return run_apart(first, second);
    return LAUNCHED(residual_layernorm_forward_in_registers, (unsigned)min64(ceil_div(rows.R, of_block), 1 << 20),
                    dim3((unsigned)(32 * warps), (unsigned)of_block), 0, stream_of(first), total, y,
                    (struct statistics *)second->out[1].data, x, residual, bias, g, b, rows,
                    (real)layernorm_eps(second));
}
