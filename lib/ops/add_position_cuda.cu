/* y[b,t] = m (x[b,t] + P[t]). See add_position.h.
 *
 * Memory-bound: forward and backward_input move 2 elements for each one computed, because P stays in the cache; a warp
 * takes a row. dP[t] is a sum over the batch: a block takes a position, and each thread adds its group's B elements in
 * the order of b. T C / GROUP threads fill a GPU from a few hundred positions on. */
#include "lib/ops/add_position.h"
#include "lib/ops/dropout_cuda.h"

extern "C" { kernel CUDA(add_position_forward), CUDA(add_position_backward_input), CUDA(add_position_backward_weight); }

/* y may be x. first_row: the table's row of local position 0. */
__global__ static void __launch_bounds__(ROW_THREADS)
add_position_forward_warp_per_row(elem *y, const elem *x, const elem *__restrict__ table, int64_t first_row,
                                  struct dropped_rows rows) {
    FOR_ROWS_OF_WARP(r, rows.R) {
        struct place p = place_of(rows, r);
        const elem *position = table + (first_row + (p.t - rows.first_t)) * rows.C;
        for (int i = threadIdx.x % 32; i < rows.n_groups; i += 32) {
            int c = i * GROUP - rows.shift;
            group a = group_load(x + r * rows.C, c, rows.C, rows.packed);
            group b = group_load(position, c, rows.C, rows.packed);
            real m[GROUP];
            factors_forward(m, rows, p, r, i);
            for (int j = 0; j < GROUP; j++) m[j] *= load(a.x[j]) + load(b.x[j]);
            group_put(y + r * rows.C, c, rows.C, rows.packed, m, 0);
        }
    }
}

/* dP[t,c] += sum_b m dy[b,t,c] for the block's t. */
__global__ static void __launch_bounds__(ROW_THREADS)
add_position_backward_block_per_position(void *gradient, int gradient_is_real, const elem *dy, int64_t first_row,
                                         struct dropped_rows rows) {
    for (int64_t t = blockIdx.x; t < rows.T; t += gridDim.x)
        for (int i = threadIdx.x; i < rows.n_groups; i += blockDim.x) {
            int c = i * GROUP - rows.shift;
            real sum[GROUP] = {0};
#pragma unroll 4
            for (int64_t r = t; r < rows.R; r += rows.T) {
                group d = group_load(dy + r * rows.C, c, rows.C, rows.packed);
                real m[GROUP];
                factors_backward(m, rows, place_of(rows, r), r, i);
                for (int j = 0; j < GROUP; j++) sum[j] += m[j] * load(d.x[j]);
            }
            int64_t row = first_row + (place_of(rows, t).t - rows.first_t);
            group_grad_add(gradient, gradient_is_real, row * rows.C, c, rows.C, rows.packed, sum);
        }
}

static int64_t first_row(const struct call *call) {
    return call->in[0].type->shape.axis[1].first - call->weight[0].type->shape.axis[0].first;
}

enum status CUDA(add_position_forward)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *table = (const elem *)call->weight[0].data;
    elem *y = (elem *)call->out[0].data;
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, x, y, table, NULL);
    return LAUNCHED(add_position_forward_warp_per_row, row_grid(rows.R), ROW_THREADS, 0, stream_of(call), y, x, table,
                    first_row(call), rows);
}

enum status CUDA(add_position_backward_input)(const struct call *call) { return dropout_backward(call, NULL); }

enum status CUDA(add_position_backward_weight)(const struct call *call) {
    const elem *dy = (const elem *)call->dout[0].data;
    const struct tensor *gradient = &call->dweight[0];
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, dy, gradient->data, NULL, NULL);
    return LAUNCHED(add_position_backward_block_per_position, (unsigned)rows.T, ROW_THREADS, 0, stream_of(call),
                    gradient->data, is_real(gradient), dy, first_row(call), rows);
}
