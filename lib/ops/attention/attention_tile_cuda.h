/* Tiles of 32 queries by 32 keys without tensor cores, for any element type, for the plain blocked kernels and the
 * materialised ones. A block is 8 warps; a warp owns 4 rows of the tile, and its 32 lanes are the 32 columns. So a
 * row's maximum and sum stay within a warp. Rows are queries and columns keys, or the other way round.
 *
 * Tiles are in dynamic shared memory, in real. Their rows of D numbers are `ld` apart, the odd one of D and D + 1, so
 * that 32 lanes that read one column read 32 banks.
 *
 * Four tiles of doubles with more than 128 channels would not fit into shared memory. So kernels are compiled twice. In
 * the WIDE form, for heads of 129 to 256 channels, a tile has room for 128 channels, and each product (tile_dots,
 * tile_add_products) loads the channels that it needs, 128 at a time. In the other form the kernel loads whole tiles.
 *
 * Only attention*_cuda.cu files include this. */
#pragma once

#include "lib/ops/attention/attention_cuda.h"

enum { TILE = 32, WARPS = 8, THREADS = 32 * WARPS, ROWS = TILE / WARPS, WIDTH = 128, CHUNKS = WIDTH / 32 };

/* Chunks of 32 channels: a thread has one element of each chunk of the warp's four vectors. */
template <bool WIDE> static constexpr int CHUNKS_OF = WIDE ? ATTENTION_CUDA_MAX_D / 32 : CHUNKS;

/* Blocks on a multiprocessor at a time. In double and in the WIDE form a thread's vectors take most of 255
 * registers. */
template <bool WIDE> static constexpr int BLOCKS_OF = WIDE || sizeof(real) == 8 ? 1 : 2;

/* Runs launch<WIDE, VIEW>(...). */
#define TILE_FOR_PAIR(a, launch, ...)                                                                                  \
    ((a)->p.D <= WIDTH ? FOR_VIEW(a, launch, false, __VA_ARGS__) : FOR_VIEW(a, launch, true, __VA_ARGS__))

__device__ static inline int lane(void) { return threadIdx.x % 32; }
__device__ static inline int first_row(void) { return threadIdx.x / 32 * ROWS; }   /* of the warp's four */

/* Bytes of shared memory: n tiles of vectors, and n squares of TILE x TILE numbers, of which each warp has ROWS x
 * TILE. */
static inline int tile_ld(const struct attention *a) { return (int)(a->p.D < WIDTH ? a->p.D : WIDTH) | 1; }
static inline size_t tile_shared(const struct attention *a, int n_tiles, int n_squares) {
    return (size_t)(n_tiles * TILE * tile_ld(a) + n_squares * TILE * TILE) * sizeof(real);
}

/* A tile: rows t0 to t0 + TILE of `from`, D channels each. Rows after T are zero. */
struct tile { real *at; int ld, D; const elem *from; int64_t stride; int T, t0; };

/* The address of the next tile, behind this one. */
__device__ static inline real *tile_end(const struct tile &x) { return x.at + TILE * x.ld; }

__device__ static inline struct tile tile_of(real *at, int ld, int D, const elem *from, int64_t stride, int64_t T,
                                             int64_t t0) {
    struct tile x = {at, ld, D, from, stride, (int)T, (int)t0};
    return x;
}

/* Channels d0 to d0 + n. */
__device__ static inline void tile_load_channels(const struct tile &x, int d0, int n) {
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS)
        for (int d = lane(); d < n; d += 32)
            x.at[i * x.ld + d] = x.t0 + i < x.T ? load(x.from[(int64_t)(x.t0 + i) * x.stride + d0 + d]) : (real)0;
}

/* Load all channels, unless WIDE, where they do not fit. */
template <bool WIDE> __device__ static inline void tile_load(const struct tile &x) {
    if constexpr (!WIDE) tile_load_channels(x, 0, x.D);
}
/* Load the next tiles of a loop, after the last use of the current ones. */
template <bool WIDE, class... tiles> __device__ static inline void tile_load_next(const tiles &...x) {
    if constexpr (!WIDE) {
        __syncthreads();
        (tile_load<WIDE>(x), ...);
        __syncthreads();
    }
}

/* s[r] += a[r] . b[lane] for the warp's rows r of tile a, and the n channels that are there. */
__device__ static inline void tile_add_dots(real s[ROWS], const struct tile &a, const struct tile &b, int n) {
    const real *rows = a.at + first_row() * a.ld, *column = b.at + lane() * a.ld;
    for (int d = 0; d < n; d++)
        for (int r = 0; r < ROWS; r++) s[r] += rows[r * a.ld + d] * column[d];
}

/* s[r] = a[r] . b[lane]. WIDE: all threads of the block must call it. */
template <bool WIDE> __device__ static inline void tile_dots(real s[ROWS], const struct tile &a, const struct tile &b) {
    for (int r = 0; r < ROWS; r++) s[r] = 0;
    if constexpr (!WIDE) {
        tile_add_dots(s, a, b, a.D);
    } else {
        for (int d0 = 0; d0 < a.D; d0 += WIDTH) {
            int n = a.D - d0 < WIDTH ? a.D - d0 : WIDTH;
            __syncthreads();   /* what was there has been used */
            tile_load_channels(a, d0, n);
            tile_load_channels(b, d0, n);
            __syncthreads();
            tile_add_dots(s, a, b, n);
        }
    }
}

/* c[r] += sum_j w[r][j] b[j], for n channels of b; lane l has the elements d = l, l + 32, ... of the four vectors;
 * chunks of 32 after n are left out. */
template <int N_CHUNKS>
__device__ static inline void tile_add_chunks(real c[ROWS][N_CHUNKS], int first, const real *w, const struct tile &b,
                                              int n) {
    for (int j = 0; j < TILE; j++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int d = lane() + 32 * i;
            if (32 * i >= n) continue;
            real x = d < n ? b.at[j * b.ld + d] : (real)0;
#pragma unroll
            for (int r = 0; r < ROWS; r++) c[r][first + i] += w[r * TILE + j] * x;
        }
}

/* The warp has written its squares, and tile_add_products may read them. In the WIDE form the barrier is inside
 * tile_add_products. */
template <bool WIDE> __device__ static inline void tile_squares_are_written(void) {
    if constexpr (!WIDE) __syncwarp();
}

/* c[r] += sum_j w[r][j] b[j]. w: the warp's square. WIDE: as tile_dots. */
template <bool WIDE>
__device__ static inline void tile_add_products(real c[ROWS][CHUNKS_OF<WIDE>], const real *w, const struct tile &b) {
    if constexpr (!WIDE) {
        tile_add_chunks<CHUNKS>(c, 0, w, b, b.D);
    } else {
#pragma unroll
        for (int first = 0; first < CHUNKS_OF<WIDE>; first += CHUNKS) {
            int d0 = 32 * first, n = b.D - d0 < WIDTH ? b.D - d0 : WIDTH;
            __syncthreads();
            tile_load_channels(b, d0, n);
            __syncthreads();
            tile_add_chunks<CHUNKS_OF<WIDE>>(c, first, w, b, n);
        }
    }
}

template <int N> __device__ static inline void tile_clear(real (&c)[ROWS][N]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < N; i++) c[r][i] = 0;
}

template <int N> __device__ static inline void tile_scale(real (&c)[ROWS][N], const real factor[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < N; i++) c[r][i] *= factor[r];
}

/* Store row t0 + r of y = c[r], for the warp's rows. */
template <int N>
__device__ static inline void tile_store(elem *y, int64_t stride, int64_t t0, int64_t T, int D,
                                         const real (&c)[ROWS][N]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            int64_t t = t0 + first_row() + r, d = lane() + 32 * i;
            if (t < T && d < D) y[t * stride + d] = store(c[r][i]);
        }
}

/* Store row t0 + r of a gradient: = or += factor x c[r]. first: the element of the head's position 0. */
template <int N>
__device__ static inline void tile_put_gradient(const struct attention *a, const struct attention_vectors &to,
                                                int64_t first, int64_t t0, int64_t T, const real (&c)[ROWS][N],
                                                real factor, int add) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            int64_t t = t0 + first_row() + r, d = lane() + 32 * i;
            if (t < T && d < a->p.D) put_gradient(a, to.at, first + t * to.row + d, factor * c[r][i], add);
        }
}

/* The running softmax of the warp's four queries; every lane has the values of all four. */
struct softmax { real max[ROWS], sum[ROWS]; };

/* sink: what the queries see before the first key; -infinity: nothing. */
__device__ static inline void softmax_start(struct softmax *run, real sink) {
    for (int r = 0; r < ROWS; r++) run->max[r] = sink, run->sum[r] = sink > -(real)INFINITY ? (real)1 : (real)0;
}

/* One more tile: s[r] becomes e^(s[r] - max) under the new maximum. Sums under the old one must be multiplied
 * by shrink[r]. No exponent is positive. */
template <bool VIEW>
__device__ static inline void softmax_add(struct softmax *run, real s[ROWS], real shrink[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        real tile_max = warp_max(s[r]), max = tile_max > run->max[r] ? tile_max : run->max[r];
        real base = base_of<VIEW>(max);
        shrink[r] = exp(run->max[r] - base);
        s[r] = exp(s[r] - base);
        run->sum[r] = run->sum[r] * shrink[r] + warp_sum(s[r]);
        run->max[r] = max;
    }
}

/* s[r] = q[r] . k[lane] / sqrt(D), capped; -infinity where the query does not see the key. */
template <bool WIDE, bool VIEW>
__device__ static inline void tile_scores(real s[ROWS], const struct tile &q, const struct tile &k,
                                          const struct attention *a) {
    tile_dots<WIDE>(s, q, k);
    for (int r = 0; r < ROWS; r++)
        s[r] = sees<VIEW>(a, q.t0 + first_row() + r, k.t0 + lane()) ? capped<VIEW>(a, (real)a->p.scale * s[r])
                                                                    : -(real)INFINITY;
}

/* m[r][j] for the warp's four queries and the tile's 32 keys, in shared memory: each lane draws four keys of one
 * query. */
__device__ static inline void tile_draw(real *m, const struct attention *a, const struct head *head, int64_t t0,
                                        int64_t j0) {
    real four[4];
    int r = lane() / 8, j = lane() % 8 * 4;
    draw_four(four, a, head, t0 + first_row() + r, j0 + j);
    for (int i = 0; i < 4; i++) m[r * TILE + j + i] = four[i];
    __syncwarp();
}
