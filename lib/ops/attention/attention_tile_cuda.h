/* Tiles of 32 queries by 32 keys without tensor cores, for any element type: what the plain blocked kernels and the
 * materialised ones are made of. A block is 8 warps; a warp owns 4 rows of the tile, and its 32 lanes are the 32
 * columns. So a row's maximum and sum are a warp's. Rows are queries and columns keys, or the other way round.
 *
 * Tiles lie in dynamic shared memory, in real: rows of D numbers, `ld` = D or D + 1 apart, which is odd, so that 32
 * lanes that read one column hit 32 banks. Only attention*_cuda.cu files include this. */
#ifndef TRIVIUM_OPS_ATTENTION_TILE_CUDA_H
#define TRIVIUM_OPS_ATTENTION_TILE_CUDA_H

#include "lib/ops/attention/attention_cuda.h"

enum { TILE = 32, WARPS = 8, THREADS = 32 * WARPS, ROWS = TILE / WARPS, CHUNKS = ATTENTION_CUDA_MAX_D / 32 };

/* Blocks on a multiprocessor at a time: in double the vectors of a thread take most of 255 registers. */
enum { TILE_BLOCKS = sizeof(real) == 8 ? 1 : 2 };

__device__ static inline int lane(void) { return threadIdx.x % 32; }
__device__ static inline int first_row(void) { return threadIdx.x / 32 * ROWS; }   /* of the warp's four */

/* Bytes of shared memory: n tiles of vectors, and n squares of TILE x TILE numbers, of which each warp has ROWS x
 * TILE. */
static inline int tile_ld(const struct attention *a) { return (int)a->p.D | 1; }
static inline size_t tile_shared(const struct attention *a, int n_tiles, int n_squares) {
    return (size_t)(n_tiles * TILE * tile_ld(a) + n_squares * TILE * TILE) * sizeof(real);
}

/* tile[i] = row t0 + i of `from`; zero after T. */
__device__ static inline void tile_load(real *tile, int ld, const elem *from, int64_t stride, int64_t t0, int64_t T,
                                        int D) {
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS)
        for (int d = lane(); d < D; d += 32)
            tile[i * ld + d] = t0 + i < T ? load(from[(t0 + i) * stride + d]) : (real)0;
}

/* s[r] = a[r] . b[lane] for the warp's rows r of tile a */
__device__ static inline void tile_dots(real s[ROWS], const real *a, const real *b, int ld, int D) {
    const real *rows = a + first_row() * ld, *column = b + lane() * ld;
    for (int r = 0; r < ROWS; r++) s[r] = 0;
    for (int d = 0; d < D; d++)
        for (int r = 0; r < ROWS; r++) s[r] += rows[r * ld + d] * column[d];
}

/* c[r] += sum_j w[r][j] b[j]; lane l has the elements d = l, l + 32, ... of the four vectors; chunks of 32 after D are
 * left out. w: the warp's, in shared memory, written before a __syncwarp. */
__device__ static inline void tile_add_products(real c[ROWS][CHUNKS], const real *w, const real *b, int ld, int D) {
    for (int j = 0; j < TILE; j++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int d = lane() + 32 * i;
            if (32 * i >= D) continue;
            real x = d < D ? b[j * ld + d] : (real)0;
#pragma unroll
            for (int r = 0; r < ROWS; r++) c[r][i] += w[r * TILE + j] * x;
        }
}

__device__ static inline void tile_clear(real c[ROWS][CHUNKS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) c[r][i] = 0;
}

__device__ static inline void tile_scale(real c[ROWS][CHUNKS], const real factor[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) c[r][i] *= factor[r];
}

/* Row t0 + r of y = c[r], for the warp's rows. */
__device__ static inline void tile_store(elem *y, int64_t stride, int64_t t0, int64_t T, int D,
                                         const real c[ROWS][CHUNKS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int64_t t = t0 + first_row() + r, d = lane() + 32 * i;
            if (t < T && d < D) y[t * stride + d] = store(c[r][i]);
        }
}

/* Row t0 + r of a gradient, of which `first` is the head's: = or += factor x c[r]. */
__device__ static inline void tile_put_gradient(const struct attention *a, const struct attention_vectors &to,
                                                int64_t first, int64_t t0, int64_t T, const real c[ROWS][CHUNKS],
                                                real factor, int add) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int64_t t = t0 + first_row() + r, d = lane() + 32 * i;
            if (t < T && d < a->p.D) put_gradient(a, to.at, first + t * to.row + d, factor * c[r][i], add);
        }
}

/* The running softmax of the warp's queries; every lane knows all four. */
struct softmax { real max[ROWS], sum[ROWS]; };

__device__ static inline void softmax_start(struct softmax *run) {
    for (int r = 0; r < ROWS; r++) run->max[r] = -(real)INFINITY, run->sum[r] = 0;
}

/* One more tile: s[r] becomes e^(s[r] - max) under the new maximum. What was summed under the old one is to be
 * multiplied by shrink[r]. No exponent is positive; each row has seen a key, so that no maximum is infinite. */
__device__ static inline void softmax_add(struct softmax *run, real s[ROWS], real shrink[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        real tile_max = warp_max(s[r]), max = tile_max > run->max[r] ? tile_max : run->max[r];
        shrink[r] = exp(run->max[r] - max);
        s[r] = exp(s[r] - max);
        run->sum[r] = run->sum[r] * shrink[r] + warp_sum(s[r]);
        run->max[r] = max;
    }
}

/* s[r] = q[r] . k[lane] / sqrt(D); -infinity where the query does not see the key. t0, j0: first query and key of the
 * tiles. */
__device__ static inline void tile_scores(real s[ROWS], const real *q, const real *k, int ld, const struct attention *a,
                                          int64_t t0, int64_t j0) {
    tile_dots(s, q, k, ld, (int)a->p.D);
    for (int r = 0; r < ROWS; r++)
        s[r] = sees(a, t0 + first_row() + r, j0 + lane()) ? (real)a->p.scale * s[r] : -(real)INFINITY;
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

#endif
