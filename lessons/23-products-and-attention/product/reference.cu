/* The matrix product by tensor cores: a block has 64 x 64 elements of c, each of its 4 warps a quarter of them.
 *
 * For every 32 columns of a and rows of b the block loads a tile of each into shared memory, with zeros beyond the
 * edges, so that odd sizes need no other kernel. A warp has 2 x 2 accumulators: a fragment that it loads serves two
 * products. Rows of a tile are 8 elements longer than they need to be, so that the 16 rows of a fragment lie in all
 * banks. c goes through shared memory, too: there no row has to be aligned. */
#include "lib/device/gpu.h"
#include "lessons/23-products-and-attention/product/product.h"

namespace wmma = nvcuda::wmma;
typedef __nv_bfloat16 bf16;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fragment_a;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fragment_b;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> accumulator;

enum {
    TILE = 64, DEPTH = 32, PAD = 8, THREADS = 128,
    HALF = TILE / 2,                                         /* rows and columns of a warp */
    EACH = HALF / 16,                                        /* and its fragments each way */
    LD_A = DEPTH + PAD, LD_B = TILE + PAD, LD_C = TILE + 4
};

/* to (rows,columns), `ld` apart, = from (R,C) at (i0,j0), and 0 beyond its edges. */
__device__ static void load_tile(bf16 *to, int rows, int columns, int ld, const bf16 *from, int R, int C, int i0,
                                 int j0) {
    for (int e = threadIdx.x; e < rows * columns; e += THREADS) {
        int i = e / columns, j = e % columns;
        to[i * ld + j] = i0 + i < R && j0 + j < C ? from[(size_t)(i0 + i) * C + j0 + j] : __float2bfloat16(0);
    }
}

__global__ static void product_tile(float *c, const bf16 *a, const bf16 *b, int M, int N, int K) {
    __shared__ __align__(32) bf16 as[TILE * LD_A], bs[DEPTH * LD_B];
    __shared__ __align__(32) float cs[TILE * LD_C];
    int i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE, warp = threadIdx.x / 32;
    int i = warp / 2 * HALF, j = warp % 2 * HALF;            /* the warp's quarter */
    accumulator sum[EACH][EACH];
    for (int r = 0; r < EACH; r++)
        for (int s = 0; s < EACH; s++) wmma::fill_fragment(sum[r][s], 0.0f);
    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        load_tile(as, TILE, DEPTH, LD_A, a, M, K, i0, k0);
        load_tile(bs, DEPTH, TILE, LD_B, b, K, N, k0, j0);
        __syncthreads();                                     /* the tiles are complete */
        for (int k = 0; k < DEPTH; k += 16) {
            fragment_a left[EACH];
            for (int r = 0; r < EACH; r++) wmma::load_matrix_sync(left[r], as + (i + 16 * r) * LD_A + k, LD_A);
            for (int s = 0; s < EACH; s++) {
                fragment_b right;
                wmma::load_matrix_sync(right, bs + k * LD_B + j + 16 * s, LD_B);
                for (int r = 0; r < EACH; r++) wmma::mma_sync(sum[r][s], left[r], right, sum[r][s]);
            }
        }
        __syncthreads();                                     /* all warps have used them */
    }
    for (int r = 0; r < EACH; r++)
        for (int s = 0; s < EACH; s++)
            wmma::store_matrix_sync(cs + (i + 16 * r) * LD_C + j + 16 * s, sum[r][s], LD_C, wmma::mem_row_major);
    __syncthreads();
    for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
        int row = e / TILE, column = e % TILE;
        if (i0 + row < M && j0 + column < N) c[(size_t)(i0 + row) * N + j0 + column] = cs[row * LD_C + column];
    }
}

enum status product(float *c, const void *a, const void *b, int M, int N, int K) {
    LAUNCH(product_tile, dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), THREADS, 0, NULL)
    (c, (const bf16 *)a, (const bf16 *)b, M, N, K);
    return OK;
}
