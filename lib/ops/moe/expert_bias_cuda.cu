/* y = x + b[e] of each row of expert e. See expert_linear.h. Memory-bound: a warp takes a row. db is summed in one
 * stage: a block takes a tile of columns of one expert, and its warps every SUM_WARPS-th row. */
#include "lib/ops/groups_cuda.h"
#include "lib/ops/moe/expert_linear.h"

extern "C" {
kernel CUDA(expert_bias_forward), CUDA(expert_bias_backward_input), CUDA(expert_bias_backward_weight);
}

/* The expert of a row; E: none. */
__device__ static inline int64_t expert_of(const struct expert_rows &s, int64_t r) {
    int64_t box = r / s.rows, e = 0;
    if (!s.counts) return box;
    for (r -= box * s.rows; e < s.E && r >= s.counts[box * s.E + e]; e++) r -= s.counts[box * s.E + e];
    return e;
}

/* y may be x: a lane reads a group before it writes it. */
__global__ static void __launch_bounds__(ROW_THREADS)
expert_bias_forward_warp_per_row(elem *y, const elem *x, const elem *__restrict__ b, struct expert_rows s, int packed) {
    FOR_ROWS_OF_WARP(r, s.boxes * s.rows) {
        int64_t e = expert_of(s, r);
        for (int c = threadIdx.x % 32 * GROUP; c < s.K; c += WARP_COLUMNS) {
            group v = group_load(x + r * s.K, c, (int)s.K, packed),
                  bias = e < s.E ? group_load(b + e * s.K, c, (int)s.K, packed) : group_zero();
            real sum[GROUP];
            for (int j = 0; j < GROUP; j++) sum[j] = load(v.x[j]) + load(bias.x[j]);
            group_put(y + r * s.K, c, (int)s.K, packed, sum, 0);
        }
    }
}

__global__ static void expert_bias_backward_elementwise(elem *dx, const elem *dy, int64_t n, int accumulate) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) put(dx + i, load(dy[i]), accumulate);
}

/* Block (tile of columns, expert) */
__global__ static void __launch_bounds__(SUM_THREADS)
expert_bias_backward_weight_tile_per_block(void *db, int db_is_real, const elem *dy, struct expert_rows s, int packed) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, c = ((int)blockIdx.x * 32 + threadIdx.x % 32) * GROUP, e = (int)blockIdx.y;
    real sum[GROUP] = {0};
    for (int64_t box = s.counts ? 0 : e; box < (s.counts ? s.boxes : e + 1); box++) {
        int64_t first = box * s.rows, n = s.counts ? s.counts[box * s.E + e] : s.rows;
        for (int i = 0; s.counts && i < e; i++) first += s.counts[box * s.E + i];
        for (int64_t r = first + warp; r < first + n && c < s.K; r += SUM_WARPS) {
            group d = group_load(dy + r * s.K, c, (int)s.K, packed);
            for (int j = 0; j < GROUP; j++) sum[j] += load(d.x[j]);
        }
    }
    block_sum_groups(sum, shared);
    if (warp == 0 && c < s.K) group_grad_add(db, db_is_real, (int64_t)e * s.K, c, (int)s.K, packed, sum);
}

enum status CUDA(expert_bias_forward)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *b = (const elem *)call->weight[0].data;
    elem *y = (elem *)call->out[0].data;
    struct expert_rows s = expert_rows(call);
    return LAUNCHED(expert_bias_forward_warp_per_row, row_grid(s.boxes * s.rows), ROW_THREADS, 0, stream_of(call), y, x,
                    b, s, packs(s.K, x, b, y, NULL));
}

/* Only if dx is not dy itself. */
enum status CUDA(expert_bias_backward_input)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(expert_bias_backward_elementwise, (unsigned)ceil_div(n, SUM_THREADS), SUM_THREADS, 0,
                    stream_of(call), (elem *)call->din[0].data, (const elem *)call->dout[0].data, n,
                    accumulates(call, 0));
}

enum status CUDA(expert_bias_backward_weight)(const struct call *call) {
    const elem *dy = (const elem *)call->dout[0].data;
    const struct tensor *db = &call->dweight[0];
    struct expert_rows s = expert_rows(call);
    dim3 grid((unsigned)ceil_div(s.K, WARP_COLUMNS), (unsigned)s.E);
    return LAUNCHED(expert_bias_backward_weight_tile_per_block, grid, SUM_THREADS, 0, stream_of(call), db->data,
                    is_real(db), dy, s, packs(s.K, dy, db->data, NULL, NULL));
}
