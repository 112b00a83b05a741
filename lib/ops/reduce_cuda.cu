/* Partial sums over many buffers of one dtype; see reduce.h.
 *
 * Memory-bound: every element is read once, 16 bytes per thread, and takes one conversion and one fused multiply-add in
 * double. Thread block b of n takes chunks b, b + n, ...; neighboring threads read neighboring bytes of a chunk; the
 * threads' sums are added in a fixed order. A buffer off a 16-byte boundary is read element by element. */
#include "lib/ops/chunks.h"
#include "lib/ops/cuda.h"
#include "lib/ops/reduce_kernels.h"
#include "lib/ops/sum_double.h"

extern "C" { reduce_launcher CUDA(reduce_partials); reduce_add_launcher CUDA(reduce_add); }

enum { THREADS = 256, CHUNK = REDUCE_CHUNK_BYTES / sizeof(elem) };   /* 8 times 16 bytes per thread */

struct square {
    __device__ static inline double of(real x) { return (double)x * (double)x; }
};
/* 0 if x is finite, else 1: x - x is 0 only for a finite x. */
struct non_finite {
    __device__ static inline double of(real x) { return x - x == 0 ? 0. : 1.; }
};

/* The sum over this thread's part of a chunk of n elements. */
template <class Term> __device__ static inline double sum_chunk(const elem *x, int n) {
    double sum = 0;
    int packed = (uintptr_t)x % 16 == 0 ? n / PACK * PACK : 0;
#pragma unroll 4
    for (int i = threadIdx.x * PACK; i < packed; i += THREADS * PACK) {
        pack v = pack_load(x + i);
        for (int j = 0; j < PACK; j++) sum += Term::of(load(v.x[j]));
    }
    for (int i = packed + threadIdx.x; i < n; i += THREADS) sum += Term::of(load(x[i]));
    return sum;
}

__global__ static void __launch_bounds__(THREADS)
reduce_partials_chunked(const struct reduce_table t, int what, const struct reduce_partials p) {
    __shared__ double shared[32];
    double sum = 0;
    for (int chunk = blockIdx.x; chunk < t.first_chunk[t.n_buffers]; chunk += gridDim.x) {
        int b = tensor_of_chunk(t.first_chunk, t.n_buffers, chunk);
        int64_t first = (int64_t)(chunk - t.first_chunk[b]) * CHUNK, left = t.n[b] - first;
        const elem *x = (const elem *)t.x[b] + first;
        int n = left < CHUNK ? (int)left : CHUNK;
        sum += what == REDUCE_SQUARES ? sum_chunk<square>(x, n) : sum_chunk<non_finite>(x, n);
    }
    sum = block_sum_double(sum, shared);
    if (threadIdx.x == 0) p.partial[blockIdx.x] = p.add ? p.partial[blockIdx.x] + sum : sum;
}

__global__ static void reduce_add_one(double *sum, const elem *x) { *sum += (double)load(*x); }

enum status CUDA(reduce_partials)(void *stream, enum reduction what, const struct reduce_table *t,
                                  struct reduce_partials p) {
    return LAUNCHED(reduce_partials_chunked, (unsigned)p.n, THREADS, 0, stream, *t, (int)what, p);
}

enum status CUDA(reduce_add)(void *stream, double *sum, const void *x) {
    return LAUNCHED(reduce_add_one, 1, 1, 0, stream, sum, (const elem *)x);
}
