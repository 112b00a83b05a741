/* Three common mistakes in row kernels. Each kernel sums the rows of x (R, C) into sums (R).
 *
 *   faults barrier|shuffle|beyond       on 4 rows of 100 */
#include "lib/device/gpu.h"
#include "tests/simt/simt_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { R = 4, C = 100, LANES = 32, ALL = ~0 };

/* A block of 128 threads per row. Threads without a column skip the barrier, too. */
__global__ static void barrier_in_branch(float *sums, const float *x) {
    __shared__ float shared[128];
    int t = threadIdx.x;
    if (t < C) {
        shared[t] = x[blockIdx.x * C + t];
        __syncthreads();
        if (t == 0) {
            float sum = 0;
            for (int c = 0; c < C; c++) sum += shared[c];
            sums[blockIdx.x] = sum;
        }
    }
}

/* A warp per row. 100 = 3 x 32 + 4: in the fourth round four lanes shuffle with 28 lanes that have left the loop. */
__global__ static void shuffle_in_loop(float *sums, const float *x) {
    int lane = threadIdx.x;
    float sum = 0;
    for (int c = lane; c < C; c += LANES) {
        float v = x[blockIdx.x * C + c];
        for (int bit = LANES / 2; bit > 0; bit /= 2) v += __shfl_xor_sync(ALL, v, bit);
        sum += v;
    }
    if (lane == 0) sums[blockIdx.x] = sum;
}

/* A warp per row, in steps of 32 up to the next multiple of 32: it reads the next row, or beyond the last row. */
__global__ static void beyond_the_row(float *sums, const float *x) {
    int lane = threadIdx.x;
    float sum = 0;
    for (int c = 0; c < C; c += LANES) sum += x[blockIdx.x * C + c + lane];
    for (int bit = LANES / 2; bit > 0; bit /= 2) sum += __shfl_xor_sync(ALL, sum, bit);
    if (lane == 0) sums[blockIdx.x] = sum;
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    float *x = (float *)aligned_alloc(256, 2048), *sums = (float *)aligned_alloc(256, 256);
    if (!x || !sums) return 1;
    memset(x, 0, 2048);
    for (int i = 0; i < R * C; i++) x[i] = 1;
    for (int r = 0; r < R; r++) sums[r] = NAN;
    simt_memory_allocated(x, R * C * sizeof *x);
    simt_memory_allocated(sums, R * sizeof *sums);
    if (strcmp(which, "barrier") == 0) LAUNCH(barrier_in_branch, R, 128, 0, NULL)(sums, x);
    else if (strcmp(which, "shuffle") == 0) LAUNCH(shuffle_in_loop, R, LANES, 0, NULL)(sums, x);
    else if (strcmp(which, "beyond") == 0) LAUNCH(beyond_the_row, R, LANES, 0, NULL)(sums, x);
    else return fprintf(stderr, "barrier, shuffle or beyond\n"), 2;
    printf("sums, which should be %d:", C);
    for (int r = 0; r < R; r++) printf(" %g", (double)sums[r]);
    printf("\n");
    return 0;
}
