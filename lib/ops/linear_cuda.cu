/* db[k] += sum_r dy[r,k]. See linear.h.
 *
 * Two stages without atomics, so that the sizes alone determine the order of the sum, and with it every bit:
 *
 *   partial[c,k] = sum of dy[r,k] over the rows r of chunk c         a block for each chunk and strip of columns
 *   db[k]       += sum of partial[c,k] over c
 *
 * Memory-bound: dy is read once, 16 bytes per thread; a warp reads 512 neighboring bytes of a row. The partial sums are
 * in call->work. A chunk has at least 64 rows, so that its partial sums are less than a twentieth of its dy. */
#include "lib/ops/cuda.h"
#include "lib/ops/linear.h"

extern "C" {
kernel CUDA(linear_bias_gradient);
enum status CUDA(linear_add_sums)(const struct call *, const void *sums);
}

enum { WARPS = 8, STRIP = 32 * PACK };   /* STRIP: columns of one block, PACK per lane; at most 256 = 32 WARPS */

/* PACK elements of the row from column k on; zeros after its end. If PACK divides K, every row starts on a 16-byte
 * boundary. */
__device__ static inline pack load_columns(const elem *row, int64_t k, int64_t K) {
    if (K % PACK == 0 && k < K) return pack_load(row + k);
    pack v;
    for (int j = 0; j < PACK; j++) v.x[j] = k + j < K ? row[k + j] : store((real)0);
    return v;
}

/* Block (strip, chunk): warp w takes rows w, w + WARPS, ... of the chunk; then the warps' sums are added in order. */
__global__ static void __launch_bounds__(32 * WARPS)
sum_columns_of_chunk(real *partial, const elem *dy, int64_t R, int64_t K, int64_t rows) {
    __shared__ real sums[WARPS][STRIP];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = threadIdx.x;
    int64_t first = (int64_t)blockIdx.x * STRIP, begin = (int64_t)blockIdx.y * rows,
            end = begin + rows < R ? begin + rows : R;
    real sum[PACK] = {0};
#pragma unroll 4
    for (int64_t r = begin + warp; r < end; r += WARPS) {
        pack v = load_columns(dy + r * K, first + lane * PACK, K);
        for (int j = 0; j < PACK; j++) sum[j] += load(v.x[j]);
    }
    for (int j = 0; j < PACK; j++) sums[warp][lane * PACK + j] = sum[j];
    __syncthreads();
    if (column >= STRIP || first + column >= K) return;
    real total = 0;
    for (int w = 0; w < WARPS; w++) total += sums[w][column];
    partial[blockIdx.y * K + first + column] = total;
}

/* A block takes 32 columns, one per lane; warp w adds chunks w, w + WARPS, ... */
__global__ static void __launch_bounds__(32 * WARPS)
add_chunks(void *db, int db_is_real, const real *partial, int64_t K, int64_t chunks) {
    __shared__ real sums[WARPS][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t k = (int64_t)blockIdx.x * 32 + lane;
    real sum = 0;
    for (int64_t c = warp; c < chunks && k < K; c += WARPS) sum += partial[c * K + k];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || k >= K) return;
    real total = 0;
    for (int w = 0; w < WARPS; w++) total += sums[w][lane];
    grad_add(db, db_is_real, k, total);
}

enum status CUDA(linear_bias_gradient)(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct linear_chunks c = linear_chunks(call);
    const struct tensor *db = &call->dweight[1];
    dim3 grid((unsigned)ceil_div(s.K, STRIP), (unsigned)c.chunks);
    TRY(LAUNCHED(sum_columns_of_chunk, grid, 32 * WARPS, 0, stream_of(call), (real *)call->work,
                 (const elem *)call->dout[0].data, s.R, s.K, c.rows));
    return LAUNCHED(add_chunks, (unsigned)ceil_div(s.K, 32), 32 * WARPS, 0, stream_of(call), db->data, is_real(db),
                    (const real *)call->work, s.K, c.chunks);
}

/* db[k] += sums[k]. The product of dW has written sums, in dW's type. */
enum { ADD_THREADS = 256 };
__global__ static void __launch_bounds__(ADD_THREADS)
add_bias_gradient(void *db, int db_is_real, const void *sums, int sums_are_real, int64_t K) {
    int64_t k = (int64_t)blockIdx.x * ADD_THREADS + threadIdx.x;
    if (k >= K) return;
    grad_add(db, db_is_real, k, sums_are_real ? ((const real *)sums)[k] : load(((const elem *)sums)[k]));
}

enum status CUDA(linear_add_sums)(const struct call *call, const void *sums) {
    int64_t K = linear_sizes(call).K;
    const struct tensor *db = &call->dweight[1];
    return LAUNCHED(add_bias_gradient, (unsigned)ceil_div(K, ADD_THREADS), ADD_THREADS, 0, stream_of(call), db->data,
                    is_real(db), sums, is_real(&call->dweight[0]), K);
}
