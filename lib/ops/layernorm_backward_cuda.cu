/* Layernorm's two backward rows in one kernel. See layernorm.h, fusion.h.
 *
 *   dx[c] = rstd (d[c] - sum_i d[i] / C - n[c] sum_i d[i] n[i] / C)     along a row
 *   dg[c] += sum_r dy[r,c] n[r,c]     db[c] += sum_r dy[r,c]            along a column
 *
 * Memory-bound: x and dy are read once for both rows, 3 elements moved for each one computed (4 if dx accumulates). Two
 * separate kernels read them twice. A block takes a slice of whole rows, up to 8 at a time, each by one or a few warps;
 * its dimensions are (threads of a row, rows). A thread has the same columns of every row, so it keeps the two sums of
 * a column in registers. At the end of the slice the block adds its threads' sums.
 *
 * R and C determine the order of all sums. If a row takes as many warps as in layernorm_cuda.cu (up to 768 columns of
 * bf16, 512 of fp32), the bits are those of the two separate kernels. The separate kernels run for rows longer than
 * 3072 columns of bf16 or 2048 of fp32, and for rows that are not `packed`.
 *
 * llm.c's layernorm_backward_kernel10 is alike, but keeps the sums in shared memory, and its last block adds the sums
 * of all blocks. */
#include "lib/ops/columns_cuda.h"
#include "lib/ops/fusion.h"
#include "lib/ops/layernorm_cuda.h"

extern "C" {
fused_kernel CUDA(layernorm_backward);
kernel CUDA(layernorm_backward_input), CUDA(layernorm_backward_weight);
}

/* The limits of layernorm_backward_rows. A thread keeps only three groups of 16-bit elements, because the sums of four
 * would not fit in its registers. */
enum {
    BACKWARD_KEPT = LAYERNORM_BACKWARD_KEPT(sizeof(elem)),
    BLOCK_WARPS = LAYERNORM_BACKWARD_WARPS(sizeof(elem)),
    MOST_ROWS = 8
};

/* The sums of a row, from the sums of its threads. */
__device__ static inline struct sums sums_of_row(struct sums s, struct sums (*of_warps)[BLOCK_WARPS / 4]) {
    s.d = warp_sum(s.d), s.dn = warp_sum(s.dn);
    if (blockDim.x == 32) return s;
    __syncthreads();   /* all threads have read the last row's sums from of_warps */
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.y][threadIdx.x / 32] = s;
    __syncthreads();
    struct sums *of = of_warps[threadIdx.y], all = of[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) all.d += of[w].d, all.dn += of[w].dn;
    return all;
}

__device__ static inline real_pack real_pack_of(const real *v) {
    real_pack p;
    for (int j = 0; j < REAL_PACK; j++) p.x[j] = v[j];
    return p;
}

/* Add v over the block's rows, in their order, and write the sums to `partial`, a row of C, from column c on.
 * Neighboring threads access neighboring words of `shared`. */
__device__ static inline void store_sum_over_rows(real *partial, real *v, int c, int C, real *shared) {
    int x = threadIdx.x, y = threadIdx.y, n = blockDim.x;
    for (int j = 0; j < GROUP && y > 0; j++) shared[((y - 1) * GROUP + j) * n + x] = v[j];
    __syncthreads();
    for (unsigned w = 0; w < blockDim.y - 1 && y == 0; w++)
        for (int j = 0; j < GROUP; j++) v[j] += shared[(w * GROUP + j) * n + x];
    for (int i = 0; i < GROUP / REAL_PACK && y == 0 && c < C; i++)
        store_whole((real_pack *)(partial + c) + i, real_pack_of(v + i * REAL_PACK));
    __syncthreads();   /* all threads have read `shared` */
}

__global__ static void __launch_bounds__(32 * BLOCK_WARPS)
layernorm_backward_slices(elem *dx, real *partial, const elem *dy, const elem *x, const struct statistics *statistics,
                          const elem *__restrict__ g, int64_t R, int C, int accumulate) {
    __shared__ struct sums of_warps[MOST_ROWS][BLOCK_WARPS / 4];
    __shared__ real shared[BLOCK_WARPS * WARP_COLUMNS];
    struct rows_range rows = slice_rows(R, blockIdx.x, gridDim.x);
    int first = threadIdx.x * GROUP, step = blockDim.x * GROUP;
    real dg[BACKWARD_KEPT][GROUP] = {{0}}, db[BACKWARD_KEPT][GROUP] = {{0}};
    for (int64_t r = rows.first + threadIdx.y; r - threadIdx.y < rows.last; r += blockDim.y) {
        group x_row[BACKWARD_KEPT], dy_row[BACKWARD_KEPT];
        struct statistics s = {0, 0};
        struct sums sums = {0, 0};
        int end = r < rows.last ? C : 0;                      /* a thread without a row only joins the barriers */
        if (end) s = statistics[r];
#pragma unroll
        for (int k = 0; k < BACKWARD_KEPT; k++) {
            x_row[k] = first + k * step < end ? group_load(x + r * C, first + k * step, C, 1) : group_zero();
            dy_row[k] = first + k * step < end ? group_load(dy + r * C, first + k * step, C, 1) : group_zero();
        }
#pragma unroll
        for (int k = 0; k < BACKWARD_KEPT; k++)
            if (first + k * step < end) add_to_sums(&sums, x_row[k], dy_row[k], s, g, first + k * step, C, 1);
        sums = sums_of_row(sums, of_warps);
        struct sums mean = {sums.d / C, sums.dn / C};
#pragma unroll
        for (int k = 0; k < BACKWARD_KEPT; k++)
            if (first + k * step < end) {
                add_row(dg[k], db[k], x_row[k], dy_row[k], s);
                write_gradient(dx + r * C, x_row[k], dy_row[k], s, mean, g, first + k * step, C, 1, accumulate);
            }
    }
    partial += (int64_t)blockIdx.x * C;
#pragma unroll
    for (int k = 0; k < BACKWARD_KEPT; k++)
        if (k * step < C) {
            store_sum_over_rows(partial, dg[k], first + k * step, C, shared);
            store_sum_over_rows(partial + (int64_t)gridDim.x * C, db[k], first + k * step, C, shared);
        }
}

static enum status run_apart(const struct call *weight, const struct call *input) {
    TRY(CUDA(layernorm_backward_weight)(weight));
    return CUDA(layernorm_backward_input)(input);
}

enum status CUDA(layernorm_backward)(const struct call *weight, const struct call *input) {
    const elem *x = (const elem *)input->in[0].data, *dy = (const elem *)input->dout[0].data;
    const elem *g = (const elem *)input->weight[0].data;
    elem *dx = (elem *)input->din[0].data;
    int64_t C = row_length(input), R = type_n(input->in[0].type) / C, n_slices = layernorm_slices(R, C, ELEM_DTYPE);
    struct layernorm_rows rows = layernorm_backward_rows(C, ELEM_DTYPE);
    if (!packs(C, x, dy, dx, g) || rows.warps == 0) return run_apart(weight, input);
    dim3 block((unsigned)(32 * rows.warps), (unsigned)rows.rows);
    TRY(LAUNCHED(layernorm_backward_slices, (unsigned)n_slices, block, 0, stream_of(input), dx, (real *)weight->work,
                 dy, x, (const struct statistics *)input->out[1].data, g, R, (int)C, accumulates(input, 0)));
    return columns_finish(weight, 2, n_slices, C);
}
