/* y[r] = W[token[r]], zeros for rows of another shard; dW[token[r]] += dy[r]. See embedding.h.
 *
 * Forward copies rows, one per warp. Memory-bound: 2 elements moved for each one.
 *
 * Backward must add the rows of dy with the same token in a fixed order, by one writer for each row of dW. So it first
 * sorts the positions by token, and then sums them, row by row:
 *
 *   sort   A block takes SORT_ROWS rows of the table and reads all tokens twice. The first time it counts its tokens by
 *          row and warp, and the tokens of lower rows, whose number is where its part of the list begins. The second
 *          time it writes its positions to the list. Each warp reads its own stretch of the tokens, so the order (row,
 *          warp, place in the stretch) is the order (row, position). Sums of integer counts are exact in any order.
 *   sum    A warp adds one row's positions, in order. A row with more than ALONE positions is cut into pieces, one for
 *          each warp of the block, and the pieces are added in order.
 *
 * Cost for 65536 tokens, 50304 rows of 768 channels in bf16, gradients in fp32: sort reads 197 x 2 x 256 KiB = 100 MB,
 * from the L2 cache; sum reads dy once (101 MB) and reads and writes the rows that occur (at most 309 MB), from memory.
 *
 * Alternatives: a block per row of dW that searches its token would read 50304 x 256 KiB. Linked lists or buckets made
 * with atomics change their order from run to run, so they would need a sort as well. A radix sort takes three or four
 * passes of three kernels. What breaks: one token in all positions is work for only 3 blocks (one per tile of columns),
 * and takes about 0.7 ms.
 *
 * A token at or beyond the global vocabulary is treated as a token of another shard: zeros, and no gradient. A kernel
 * cannot refuse it as the CPU does, but lib/data refuses it when it reads the data. */
#include "lib/ops/groups_cuda.h"
#include "lib/base/integer.h"
#include "lib/ops/embedding.h"

extern "C" { kernel CUDA(embedding_forward), CUDA(embedding_backward_weight); }

/* This rank's rows of the table: tokens first .. first + n-1, without padding. */
struct vocabulary { int32_t first, n; };

__device__ static inline int32_t local_row(int32_t token, struct vocabulary v) {
    return token >= v.first && token - v.first < v.n ? token - v.first : -1;
}

/* ---- forward ---- */

enum { AHEAD = 4 };   /* loads that each lane starts before it waits for the first */

__global__ static void __launch_bounds__(ROW_THREADS)
    embedding_forward_warp_per_row(elem *y, const elem *w, const int32_t *token, int64_t R, int C, struct vocabulary v,
                                   int packed) {
    FOR_ROWS_OF_WARP(r, R) {
        int32_t k = local_row(token[r], v);
        const elem *row = w + (int64_t)(k < 0 ? 0 : k) * C;
        for (int c = threadIdx.x % 32 * GROUP; c < C; c += AHEAD * WARP_COLUMNS) {
            group g[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                int at = c + u * WARP_COLUMNS;
                g[u] = k >= 0 && at < C ? group_load(row, at, C, packed) : group_zero();
            }
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (c + u * WARP_COLUMNS < C) group_store(y + r * C, g[u], c + u * WARP_COLUMNS, C, packed);
        }
    }
}

/* ---- backward: sort ---- */

enum { SORT_THREADS = 1024, SORT_WARPS = SORT_THREADS / 32, SORT_ROWS = 256 };

/* The table rows of the lane's next AHEAD tokens, from position p on; -1: no token, or not in this shard. All loads
 * start before the first is used. */
__device__ static inline void next_rows(int32_t *k, const int32_t *__restrict__ token, int64_t p, int64_t end,
                                        struct vocabulary v) {
    for (int u = 0; u < AHEAD; u++) k[u] = p + 32 * u < end ? token[p + 32 * u] : -1;
    for (int u = 0; u < AHEAD; u++) k[u] = local_row(k[u], v);
}

/* counts[i] = the sum of counts[0 .. i], in log2 SORT_ROWS steps that add the count 1, 2, 4 ... places before. */
__device__ static inline void inclusive_sums(int32_t *counts) {
    int i = threadIdx.x;
    for (int d = 1; d < SORT_ROWS; d *= 2) {
        int32_t before = i >= d && i < SORT_ROWS ? counts[i - d] : 0;
        __syncthreads();
        if (i < SORT_ROWS) counts[i] += before;
        __syncthreads();
    }
}

__global__ static void __launch_bounds__(SORT_THREADS)
    embedding_sort_positions(int32_t *position, int32_t *start, const int32_t *__restrict__ token, int64_t R,
                             struct vocabulary v, int32_t n_rows) {
    __shared__ int32_t place[SORT_WARPS][SORT_ROWS];   /* [warp][row]: a count; later the index in position[]
                                                        * that the warp writes next */
    __shared__ int32_t total[SORT_ROWS], lower;
    int i = threadIdx.x, lane = i % 32, warp = i / 32;
    int32_t row0 = (int32_t)blockIdx.x * SORT_ROWS, k[AHEAD];
    int64_t stretch = (R + SORT_WARPS - 1) / SORT_WARPS, begin = warp * stretch,
            end = begin + stretch < R ? begin + stretch : R;

    for (int e = i; e < SORT_WARPS * SORT_ROWS; e += SORT_THREADS) place[e / SORT_ROWS][e % SORT_ROWS] = 0;
    if (i == 0) lower = 0;
    __syncthreads();
    int32_t mine_lower = 0;
    for (int64_t p = begin + lane; p - lane < end; p += 32 * AHEAD) {
        next_rows(k, token, p, end, v);
        for (int u = 0; u < AHEAD; u++) {
            mine_lower += k[u] >= 0 && k[u] < row0;
            if (k[u] >= row0 && k[u] < row0 + SORT_ROWS) atomicAdd(&place[warp][k[u] - row0], 1);
        }
    }
    for (int d = 16; d > 0; d >>= 1) mine_lower += __shfl_xor_sync(0xffffffffu, mine_lower, d);
    if (lane == 0) atomicAdd(&lower, mine_lower);
    __syncthreads();

    if (i < SORT_ROWS) {
        int32_t sum = 0;
        for (int w = 0; w < SORT_WARPS; w++) sum += place[w][i];
        total[i] = sum;
    }
    __syncthreads();
    inclusive_sums(total);
    if (i < SORT_ROWS) {
        int32_t at = lower + (i > 0 ? total[i - 1] : 0);
        if (row0 + i < n_rows) start[row0 + i] = at;
        for (int w = 0; w < SORT_WARPS; w++) {
            int32_t count = place[w][i];
            place[w][i] = at;
            at += count;
        }
        if (row0 + i == n_rows - 1) start[n_rows] = at;
    }
    __syncthreads();

    for (int64_t p = begin + lane; p - lane < end; p += 32 * AHEAD) {
        next_rows(k, token, p, end, v);
        for (int u = 0; u < AHEAD; u++) {
            int mine = k[u] >= row0 && k[u] < row0 + SORT_ROWS;
            /* Lanes write in order; most often no lane has a token of this block. */
            for (unsigned lanes = __ballot_sync(0xffffffffu, mine); lanes; lanes &= lanes - 1) {
                if (lane == __ffs((int)lanes) - 1) position[place[warp][k[u] - row0]++] = (int32_t)(p + 32 * u);
                __syncwarp();
            }
        }
    }
}

/* ---- backward: sum ---- */

enum { ALONE = 64, IN_FLIGHT = 8 };

/* sum[j] += dy[position[i], c + j] for i = begin .. end-1, in order. Each term needs two dependent loads, its position
 * and then its row, so IN_FLIGHT terms are loaded together. */
__device__ static inline void add_positions(real *sum, const elem *dy, const int32_t *position, int32_t begin,
                                            int32_t end, int c, int C, int packed) {
    for (int32_t i = begin; i < end; i += IN_FLIGHT) {
        group v[IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            v[u] = i + u < end ? group_load(dy + (int64_t)position[i + u] * C, c, C, packed) : group_zero();
#pragma unroll
        for (int u = 0; u < IN_FLIGHT; u++)
            for (int j = 0; j < GROUP; j++) sum[j] += load(v[u].x[j]);
    }
}

/* dW[k] += the sum of row k's positions, for SUM_WARPS rows and one tile of columns. */
__global__ static void __launch_bounds__(SUM_THREADS)
embedding_sum_rows(void *gradient, int gradient_is_real, const elem *dy, const int32_t *position, const int32_t *start,
                   int32_t n_rows, int C, int packed) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, c = ((int)blockIdx.y * 32 + threadIdx.x % 32) * GROUP;
    int32_t row0 = (int32_t)blockIdx.x * SUM_WARPS, own = row0 + warp;
    int32_t begin = own < n_rows ? start[own] : 0, n = own < n_rows ? start[own + 1] - begin : 0;
    if (n > 0 && n <= ALONE && c < C) {
        real sum[GROUP] = {0};
        add_positions(sum, dy, position, begin, begin + n, c, C, packed);
        group_grad_add(gradient, gradient_is_real, (int64_t)own * C, c, C, packed, sum);
    }
    for (int32_t k = row0; k < row0 + SUM_WARPS && k < n_rows; k++) {   /* all warps add row k */
        begin = start[k], n = start[k + 1] - begin;
        if (n <= ALONE) continue;
        int32_t each = (n + SUM_WARPS - 1) / SUM_WARPS, from = warp * each, to = from + each < n ? from + each : n;
        real sum[GROUP] = {0};
        if (c < C) add_positions(sum, dy, position, begin + from, begin + to, c, C, packed);
        __syncthreads();   /* warp 0 has read the last row's sums from `shared` */
        block_sum_groups(sum, shared);
        if (warp == 0 && c < C) group_grad_add(gradient, gradient_is_real, (int64_t)k * C, c, C, packed, sum);
    }
}

/* ---- launchers ---- */

static struct vocabulary vocabulary_of(const struct call *call) {
    const struct axis *a = &call->weight[0].type->shape.axis[0];
    int64_t n = min64(a->n, a->global - a->first);
    struct vocabulary v = {(int32_t)a->first, (int32_t)(n > 0 ? n : 0)};
    return v;
}

enum status CUDA(embedding_forward)(const struct call *call) {
    const elem *w = (const elem *)call->weight[0].data;
    elem *y = (elem *)call->out[0].data;
    int64_t R = type_n(call->in[0].type), C = call->weight[0].type->shape.axis[1].n;
    return LAUNCHED(embedding_forward_warp_per_row, row_grid(R), ROW_THREADS, 0, stream_of(call), y, w,
                    (const int32_t *)call->in[0].data, R, (int)C, vocabulary_of(call), packs(C, w, y, NULL, NULL));
}

enum status CUDA(embedding_backward_weight)(const struct call *call) {
    const elem *dy = (const elem *)call->dout[0].data;
    const struct tensor *gradient = &call->dweight[0];
    int64_t R = type_n(call->in[0].type), V = gradient->type->shape.axis[0].n, C = gradient->type->shape.axis[1].n;
    int32_t *position = (int32_t *)call->work, *start = position + R;
    TRY(LAUNCHED(embedding_sort_positions, (unsigned)ceil_div(V, SORT_ROWS), SORT_THREADS, 0, stream_of(call), position,
                 start, (const int32_t *)call->in[0].data, R, vocabulary_of(call), (int32_t)V));
    dim3 grid((unsigned)ceil_div(V, SUM_WARPS), (unsigned)ceil_div(C, WARP_COLUMNS));
    return LAUNCHED(embedding_sum_rows, grid, SUM_THREADS, 0, stream_of(call), gradient->data, is_real(gradient), dy,
                    position, start, (int32_t)V, (int)C, packs(C, dy, gradient->data, NULL, NULL));
}
