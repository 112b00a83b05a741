/* The second stage of the reductions: one block adds the partial sums. See reduce.h. */
#include "lib/ops/reduce_kernels.h"
#include "lib/ops/sum_double.h"

enum { THREADS = 512 };

__global__ static void __launch_bounds__(THREADS) reduce_total_one_block(const double *partial, int n, double *out) {
    __shared__ double shared[32];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) sum += partial[i];
    sum = block_sum_double(sum, shared);
    if (threadIdx.x == 0) *out = sum;
}

enum status reduce_total_cuda(void *stream, const double *partial, int n, double *out) {
    return LAUNCHED(reduce_total_one_block, 1, THREADS, 0, stream, partial, n, out);
}
