/* c[r,n] = bias[n] + beta c[r,n]: the start value of C, if the library cannot add the product's bias itself
 * (gemm_cuda.c).
 *
 * Memory-bound: c is written once, by neighboring threads; bias stays in cache. */
#include "lib/ops/cuda.h"
#include "lib/ops/gemm/gemm.h"

enum { THREADS = 256 };

__global__ static void __launch_bounds__(THREADS)
start_from_bias(elem *c, const elem *bias, int64_t n, int64_t all, real beta) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= all) return;
    real b = load(bias[i % n]);
    c[i] = store(beta == (real)0 ? b : b + beta * load(c[i]));
}

extern "C" enum status CUDA(gemm_start_from_bias)(const struct gemm *g, const struct device *d, const void *bias,
                                                  void *c) {
    int64_t all = g->m * g->n;
    return LAUNCHED(start_from_bias, (unsigned)ceil_div(all, THREADS), THREADS, 0, (cudaStream_t)d->stream, (elem *)c,
                    (const elem *)bias, g->n, all, (real)g->beta);
}
