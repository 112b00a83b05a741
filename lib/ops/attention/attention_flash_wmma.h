/* Flash attention on tensor cores, for bf16 and fp16: functions that forward and backward share. Only
 * attention_flash_wmma_*_cuda.cu files include this.
 *
 * A block is 4 warps and has a tile of 64 rows of one head (queries, or keys), of which a warp owns 16. It loops over
 * tiles of N columns (keys, or queries). Each warp computes two kinds of products:
 *
 *   wmma_scores       s (16,N) = a (16,D) b (N,D)^T            b: a tile of N vectors, shared by the block
 *   wmma_accumulate   c (16,D) += p (16,N) b (N,D)             c stays in registers for the whole loop
 *
 * N is 64. In backward, for heads of more than 160 channels, N is 32, because four tiles of 64 would not fit into an
 * A100's 163 KiB of shared memory, nor the scores into registers next to c.
 *
 * It is unspecified which thread has which element of a fragment. So work by rows goes through the warp's scratch in
 * shared memory, 16 rows of N + 8 floats. A row first has N scores in fp32; then, in the same bytes, N elems of p, and
 * from float F_AT on 16 copies of the row's factor. Loaded as a fragment, the copies multiply each row of c by its
 * factor, element by element.
 *
 * Tiles hold D rounded up to DP, a compiled size, and zeros beyond D. A row has 8 elems more, so that 8 rows of one
 * column of 16 bytes are in different banks. Positions after T are zeros. */
#pragma once

#include "lib/ops/attention/attention_cuda.h"

enum {
    TILE = 64,
    WARPS = 4,
    THREADS = 32 * WARPS,
    ROWS = TILE / WARPS,   /* of a warp */
    F_AT = TILE / 2        /* after 64 elems: 128 bytes */
};

/* A row of scratch for N columns, in floats: 8 rows a quarter of a warp apart lie in different banks; and in elems. */
template <int N> static constexpr int S_LD = N + 8;
template <int N> static constexpr int P_LD = 2 * S_LD<N>;

#define LOG2_E 1.4426950408889634f   /* e^x = 2^(x log2 e): the hardware computes 2^x */
#define LN_2 0.6931471805599453f

namespace wmma = nvcuda::wmma;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> accumulator;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, elem, wmma::row_major> left;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, elem, wmma::row_major> right;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, elem, wmma::col_major> right_transposed;

struct __align__(8) four_elems { elem x[4]; };
struct __align__(16) four_floats { float x[4]; };

/* A product q . k as a score in powers of two; scale: that of the scores, times log2 e. */
template <bool VIEW> __device__ static inline float score_of(const struct attention *a, float product, float scale) {
    return VIEW && a->per_cap > 0 ? capped<VIEW>(a, product * (float)a->p.scale) * LOG2_E : product * scale;
}
/* The factor of the gradient of such a product for its cap. */
template <bool VIEW> __device__ static inline float slope_of(const struct attention *a, float product, float scale) {
    return VIEW ? cap_slope<VIEW>(a, score_of<VIEW>(a, product, scale) * LN_2) : 1.0f;
}

__device__ static inline int lane(void) { return threadIdx.x % 32; }
__device__ static inline int first_row(void) { return threadIdx.x / 32 * ROWS; }   /* of the warp's 16 */

/* Bytes of shared memory: tiles of 64 vectors; tiles of N vectors; squares, each the scratch of all warps; and two
 * statistics of N positions. */
template <int DP, int N> static inline size_t wmma_shared(int n_row_tiles, int n_column_tiles, int n_squares) {
    return (size_t)(n_row_tiles * TILE + n_column_tiles * N) * (DP + 8) * sizeof(elem) +
           (size_t)(n_squares * TILE * S_LD<N> + 2 * N) * sizeof(float);
}

/* tile[i] = row t0 + i of `from`, for N rows; 16 bytes at a time where the head size allows it. */
template <int DP, int N = TILE>
__device__ static inline void wmma_load(elem *tile, const elem *from, int64_t stride, int64_t t0, int64_t T,
                                        const struct attention *a) {
    const int packs = DP / PACK, D = (int)a->p.D;
#pragma unroll 4
    for (int i = threadIdx.x; i < N * packs; i += THREADS) {
        int r = i / packs, d = i % packs * PACK;
        const elem *row = from + (t0 + r) * stride;
        pack v;
#pragma unroll
        for (int j = 0; j < PACK; j++) v.x[j] = store(0);
        if (t0 + r < T && d < D) {
            if (a->packed) v = pack_load(row + d);
            else
#pragma unroll
                for (int j = 0; j < PACK; j++)
                    if (d + j < D) v.x[j] = row[d + j];
        }
        pack_store(tile + r * (DP + 8) + d, v);
    }
}

template <int DP, int N = TILE>
__device__ static inline void wmma_scores(float *scratch, const elem *a, const elem *b) {
    accumulator s[N / 16];
#pragma unroll
    for (int n = 0; n < N / 16; n++) wmma::fill_fragment(s[n], 0.0f);
#pragma unroll 4
    for (int k = 0; k < DP; k += 16) {
        left rows;
        wmma::load_matrix_sync(rows, a + k, DP + 8);
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            right_transposed columns;
            wmma::load_matrix_sync(columns, b + n * 16 * (DP + 8) + k, DP + 8);
            wmma::mma_sync(s[n], rows, columns, s[n]);
        }
    }
#pragma unroll
    for (int n = 0; n < N / 16; n++) wmma::store_matrix_sync(scratch + n * 16, s[n], S_LD<N>, wmma::mem_row_major);
}

template <int DP, int N = TILE>
__device__ static inline void wmma_accumulate(accumulator c[DP / 16], const float *scratch, const elem *b) {
    const elem *p = (const elem *)scratch;
#pragma unroll 1   /* a larger unrolled loop would not fit into registers */
    for (int k = 0; k < N; k += 16) {
        left rows;
        wmma::load_matrix_sync(rows, p + k, P_LD<N>);
#pragma unroll
        for (int n = 0; n < DP / 16; n++) {
            right columns;
            wmma::load_matrix_sync(columns, b + k * (DP + 8) + n * 16, DP + 8);
            wmma::mma_sync(c[n], rows, columns, c[n]);
        }
    }
}

template <int DP> __device__ static inline void wmma_clear(accumulator c[DP / 16]) {
#pragma unroll
    for (int n = 0; n < DP / 16; n++) wmma::fill_fragment(c[n], 0.0f);
}

/* Multiply row r of c by the factor in row r of the scratch. */
template <int DP> __device__ static inline void wmma_rescale(accumulator c[DP / 16], const float *scratch) {
    accumulator factor;
    wmma::load_matrix_sync(factor, scratch + F_AT, S_LD<TILE>, wmma::mem_row_major);
#pragma unroll
    for (int n = 0; n < DP / 16; n++)
#pragma unroll
        for (int i = 0; i < factor.num_elements; i++) c[n].x[i] *= factor.x[i];
}

/* Store up to eight elements (n) of a row of the result: = or += factor x `from`. A result in real is always added
 * to. */
__device__ static inline void store_eight(void *to, int64_t at, const float *from, int n, float factor,
                                          const struct attention *a, int sums, int accumulate) {
    elem *eight = (elem *)to + at;
    if (sums) {
        for (int i = 0; i < PACK && i < n; i++) ((float *)to)[at + i] += factor * from[i];
    } else if (a->packed) {
        pack v;
        if (accumulate) v = pack_load(eight);
#pragma unroll
        for (int i = 0; i < PACK; i++) put(&v.x[i], factor * from[i], accumulate);
        pack_store(eight, v);
    } else {
        for (int i = 0; i < PACK && i < n; i++) put(eight + i, factor * from[i], accumulate);
    }
}

/* Store rows t .. t + 15 (before T) of a result that begins at element `first` of `to`: = or += factor c. They pass
 * through the scratch, N columns at a time. */
struct rows_out { void *to; int64_t first, stride, T; int sums, accumulate; };
template <int DP, int N = TILE>
__device__ static inline void wmma_store(struct rows_out out, int64_t t, const accumulator c[DP / 16], float factor,
                                         float *scratch, const struct attention *a) {
    int D = (int)a->p.D;
#pragma unroll
    for (int first = 0; first < DP; first += N) {
        __syncwarp();
#pragma unroll
        for (int n = first / 16; n < DP / 16 && n < (first + N) / 16; n++)
            wmma::store_matrix_sync(scratch + n * 16 - first, c[n], S_LD<N>, wmma::mem_row_major);
        __syncwarp();
        for (int i = lane(); i < ROWS * N / PACK; i += 32) {
            int r = i / (N / PACK), column = i % (N / PACK) * PACK, d = first + column;
            if (t + r < out.T && d < D)
                store_eight(out.to, out.first + (t + r) * out.stride + d, scratch + r * S_LD<N> + column, D - d,
                            factor, a, out.sums, out.accumulate);
        }
    }
}

/* The rows of a gradient. first: the element of the head's position 0. */
__device__ static inline struct rows_out gradient_rows(const struct attention *a, const struct attention_vectors &to,
                                                       int64_t first, int64_t T, int add) {
    struct rows_out out = {to.at, first, to.row, T, a->p.sums, add};
    return out;
}

/* Runs launch<DP, VIEW>(a) for the smallest compiled head size that holds D. */
#define WMMA_FOR_PAIR(a, launch)                                                                                       \
    ((a)->p.D <= 32    ? FOR_VIEW(a, launch, 32, a)                                                                    \
     : (a)->p.D <= 64  ? FOR_VIEW(a, launch, 64, a)                                                                    \
     : (a)->p.D <= 80  ? FOR_VIEW(a, launch, 80, a)                                                                    \
     : (a)->p.D <= 96  ? FOR_VIEW(a, launch, 96, a)                                                                    \
     : (a)->p.D <= 128 ? FOR_VIEW(a, launch, 128, a)                                                                   \
     : (a)->p.D <= 160 ? FOR_VIEW(a, launch, 160, a)                                                                   \
     : (a)->p.D <= 224 ? FOR_VIEW(a, launch, 224, a)                                                                   \
                       : FOR_VIEW(a, launch, 256, a))
