/* Merge the results of a query's several pairs, and copy vectors to and from dense arrays. See attention_pair.h; the
 * formulas are those of attention_merge_cpu.c. Memory-bound, an element a thread. */
#include "lib/ops/attention/attention_cuda.h"

extern "C" {
attention_merge_kernel CUDA(attention_merge_begin), CUDA(attention_merge);
attention_merge_end_kernel CUDA(attention_merge_end);
attention_pack_kernel CUDA(attention_pack);
attention_unpack_kernel CUDA(attention_unpack);
}

enum { THREADS = 256 };
#define FOR_ELEMENTS(i, n)                                                                                             \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)

__global__ static void merge_begin_element_per_thread(struct attention_merge m) {
    int64_t rows = m.B * m.H * m.T;
    FOR_ELEMENTS(i, rows * m.D) {
        ((real *)m.y)[i] = 0;
        if (i < rows) ((real *)m.lse)[i] = -(real)INFINITY;
    }
}

/* A block has one query of a head: every thread reads both lse before one thread writes. */
__global__ static void merge_block_per_row(struct attention_merge m) {
    int64_t T = m.T - m.first, n = m.B * m.H * T;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        int64_t t = m.first + i % T, h = i / T % m.H, b = i / T / m.H, row = (b * m.H + h) * m.T + t;
        int64_t at = ((b * m.T + t) * m.H + h) * m.D;
        real lse = ((real *)m.lse)[row], more = ((const real *)m.lse_pair)[row], most = lse > more ? lse : more;
        real all = most + (real)log(exp(lse - most) + exp(more - most)), keep = exp(lse - all), add = exp(more - all);
        for (int64_t d = threadIdx.x; d < m.D; d += blockDim.x)
            ((real *)m.y)[at + d] = ((real *)m.y)[at + d] * keep + load(((const elem *)m.y_pair)[at + d]) * add;
        __syncthreads();
        if (threadIdx.x == 0) ((real *)m.lse)[row] = all;
    }
}

__global__ static void merge_end_element_per_thread(struct attention_merge m, elem *y, real *lse) {
    int64_t rows = m.B * m.H * m.T;
    FOR_ELEMENTS(i, rows * m.D) {
        y[i] = store(((const real *)m.y)[i]);
        if (i < rows) lse[i] = ((const real *)m.lse)[i];
    }
}

enum status CUDA(attention_merge_begin)(const struct attention_merge *m) {
    return LAUNCHED(merge_begin_element_per_thread, grid_of(m->B * m->H * m->T * m->D, THREADS), THREADS, 0,
                    m->device->stream, *m);
}

enum status CUDA(attention_merge)(const struct attention_merge *m) {
    unsigned rows = (unsigned)min64(m->B * m->H * (m->T - m->first), 1 << 20);
    return LAUNCHED(merge_block_per_row, rows, 64, 0, m->device->stream, *m);
}

enum status CUDA(attention_merge_end)(const struct attention_merge *m, void *y, void *lse) {
    return LAUNCHED(merge_end_element_per_thread, grid_of(m->B * m->H * m->T * m->D, THREADS), THREADS, 0,
                    m->device->stream, *m, (elem *)y, (real *)lse);
}

/* ---- vectors, dense ---- */

__device__ static inline elem *element_of(const struct attention_copy &c, int64_t i) {
    int64_t t = i / c.width % c.T, b = i / c.width / c.T;
    return (elem *)c.vectors.at + b * c.vectors.sample + t * c.vectors.row + i % c.width;
}

__global__ static void pack_element_per_thread(struct attention_copy c) {
    FOR_ELEMENTS(i, c.B * c.T * c.width) ((elem *)c.dense)[i] = *element_of(c, i);
}
__global__ static void unpack_element_per_thread(struct attention_copy c, int add) {
    FOR_ELEMENTS(i, c.B * c.T * c.width) put(element_of(c, i), ((const real *)c.dense)[i], add);
}

enum status CUDA(attention_pack)(const struct attention_copy *c) {
    return LAUNCHED(pack_element_per_thread, grid_of(c->B * c->T * c->width, THREADS), THREADS, 0, c->device->stream,
                    *c);
}

enum status CUDA(attention_unpack)(const struct attention_copy *c, bool add) {
    return LAUNCHED(unpack_element_per_thread, grid_of(c->B * c->T * c->width, THREADS), THREADS, 0, c->device->stream,
                    *c, add);
}
