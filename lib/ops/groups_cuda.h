/* Rows and columns for the CUDA kernels of (R, C) matrices. Only *_cuda.cu files include this.
 *
 * A lane of a warp works on a group of GROUP neighboring columns: 16 bytes, moved as one, and at least four elements,
 * because one Philox block draws for four (dropout_cuda.h). A warp covers WARP_COLUMNS columns of a row at a time. If C
 * is no multiple of GROUP, or a row does not start on a 16-byte boundary, `packed` is false, and the same groups are
 * moved element by element. */
#pragma once

#include "lib/ops/cuda.h"

enum { GROUP = PACK < 4 ? 4 : PACK, WARP_COLUMNS = 32 * GROUP, REAL_PACK = 16 / sizeof(real) };
struct __align__(16) group { elem x[GROUP]; };
struct __align__(16) real_pack { real x[REAL_PACK]; };

/* ---- in launchers ---- */
static inline int aligned(const void *p) { return (uintptr_t)p % 16 == 0; }   /* true for NULL, an absent operand */
static inline int packs(int64_t C, const void *a, const void *b, const void *c, const void *d) {
    return C % GROUP == 0 && aligned(a) && aligned(b) && aligned(c) && aligned(d);
}

/* Kernels with a warp for each row: a block has ROW_THREADS threads, and takes ROW_WARPS rows. Blocks are many and
 * short, so that no multiprocessor is idle at the end. At most 2^20 blocks loop over the rows of a larger matrix. */
enum { ROW_THREADS = 128, ROW_WARPS = ROW_THREADS / 32 };
static inline unsigned row_grid(int64_t R) { return (unsigned)min64(ceil_div(R, ROW_WARPS), 1 << 20); }
#define FOR_ROWS_OF_WARP(r, R)                                                                                         \
    for (int64_t r = (int64_t)blockIdx.x * ROW_WARPS + threadIdx.x / 32; r < (R); r += (int64_t)gridDim.x * ROW_WARPS)

/* *to = value, for 16, 32 ... bytes, in stores of 16. The compiler splits small structures: if it computes their
 * elements one by one, it often stores them one by one. It does not split a __stwb. */
template <typename T> __device__ static inline void store_whole(T *to, const T &value) {
#ifdef __CUDA_ARCH__
    uint4 words[sizeof(T) / 16];
    memcpy(words, &value, sizeof(T));
    for (unsigned i = 0; i < sizeof(T) / 16; i++) __stwb((uint4 *)to + i, words[i]);
#else
    *to = value;
#endif
}

/* ---- a group: columns c .. c + GROUP-1 of a row of C; packed: c < C, which is a multiple of GROUP ---- */
__device__ static inline group group_zero(void) {
    group g;
    for (int j = 0; j < GROUP; j++) g.x[j] = store((real)0);
    return g;
}

/** Load a group. Columns outside of the row become zero. */
__device__ static inline group group_load(const elem *row, int c, int C, int packed) {
    if (packed) return *(const group *)(row + c);
    group g;
    for (int j = 0; j < GROUP; j++) g.x[j] = c + j >= 0 && c + j < C ? row[c + j] : store((real)0);
    return g;
}

/** row[c + j] = g.x[j] */
__device__ static inline void group_store(elem *row, const group &g, int c, int C, int packed) {
    if (packed) store_whole((group *)(row + c), g);
    else
        for (int j = 0; j < GROUP && c + j < C; j++) row[c + j] = g.x[j];
}

/** row[c + j] = v[j], or += */
__device__ static inline void group_put(elem *row, int c, int C, int packed, const real *v, int accumulate) {
    if (packed) {
        group g = accumulate ? *(const group *)(row + c) : group_zero();
        for (int j = 0; j < GROUP; j++) put(&g.x[j], v[j], accumulate);
        store_whole((group *)(row + c), g);
    } else {
        for (int j = 0; j < GROUP; j++)
            if (c + j >= 0 && c + j < C) put(row + c + j, v[j], accumulate);
    }
}

/** gradient[at + c + j] += v[j]. The gradient's dtype is real or elem. */
__device__ static inline void group_grad_add(void *gradient, int gradient_is_real, int64_t at, int c, int C, int packed,
                                             const real *v) {
    if (packed && gradient_is_real) {
        real_pack *to = (real_pack *)((real *)gradient + at + c);
        for (int i = 0; i < GROUP / REAL_PACK; i++) {
            real_pack g = to[i];
            for (int j = 0; j < REAL_PACK; j++) g.x[j] += v[i * REAL_PACK + j];
            store_whole(to + i, g);
        }
    } else if (packed) {
        group_put((elem *)gradient + at, c, C, packed, v, 1);
    } else {
        for (int j = 0; j < GROUP; j++)
            if (c + j >= 0 && c + j < C) grad_add(gradient, gradient_is_real, at + c + j, v[j]);
    }
}

/* ---- sums over a block: its lanes hold different columns, its warps different rows ---- */
enum { SUM_THREADS = 256, SUM_WARPS = SUM_THREADS / 32 };
enum { SUM_SHARED = (SUM_WARPS - 1) * WARP_COLUMNS };     /* reals, for block_sum_groups */

/** Sum v over the block's warps, in their order, into warp 0. `shared` is transposed, so that neighboring lanes access
 *  neighboring words. The caller may reuse it after its next __syncthreads. */
__device__ static inline void block_sum_groups(real *v, real *shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int j = 0; j < GROUP && warp > 0; j++) shared[(warp - 1) * WARP_COLUMNS + j * 32 + lane] = v[j];
    __syncthreads();
    for (int w = 0; w < SUM_WARPS - 1 && warp == 0; w++)
        for (int j = 0; j < GROUP; j++) v[j] += shared[w * WARP_COLUMNS + j * 32 + lane];
}
