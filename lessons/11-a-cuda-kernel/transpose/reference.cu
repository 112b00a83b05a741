/* The transpose of a matrix by tiles of 32 x 32 in shared memory.
 *
 * A block of 32 x 8 threads reads a tile by rows of x and writes it by rows of y, which are columns of the tile. So
 * each warp reads and writes 32 neighboring floats of global memory. In shared memory a warp reads a column of the
 * tile. With rows of 32 words the column would be in one bank; with rows of 33 words it is in 32 different banks. */
#include "lib/device/gpu.h"
#include "lessons/11-a-cuda-kernel/transpose/transpose.h"

enum { TILE = 32, STEP = 8 };

__global__ static void transpose_tile(float *y, const float *x, int R, int C) {
    __shared__ float tile[TILE][TILE + 1];
    int row = blockIdx.y * TILE, column = blockIdx.x * TILE, i = threadIdx.x;
    for (int j = threadIdx.y; j < TILE; j += STEP)
        if (row + j < R && column + i < C) tile[j][i] = x[(size_t)(row + j) * C + column + i];
    __syncthreads();
    for (int j = threadIdx.y; j < TILE; j += STEP)
        if (column + j < C && row + i < R) y[(size_t)(column + j) * R + row + i] = tile[i][j];
}

enum status transpose(float *y, const float *x, int R, int C) {
    LAUNCH(transpose_tile, dim3((C + TILE - 1) / TILE, (R + TILE - 1) / TILE), dim3(TILE, STEP), 0, NULL)(y, x, R, C);
    return OK;
}
