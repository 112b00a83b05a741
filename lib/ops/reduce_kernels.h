/* Declarations that reduce.c, reduce_cuda.c and the kernels share. */
#pragma once

#include "lib/ops/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

enum reduction { REDUCE_SQUARES, REDUCE_NON_FINITE };

typedef enum status reducer(const struct device *, enum reduction, const struct reduce_buffer *, int n, double *out,
                            void *work);
typedef enum status adder(const struct device *, double *sum, const void *x, enum dtype);
reducer reduce_cuda;
adder reduce_add_cuda;

/* ---- CUDA ---- */

/* The most thread blocks, and so partial sums, of a launch: two rounds on an H200 (132 multiprocessors, 8 blocks each
 * at a time). The buffers alone determine the number of blocks, so that the result does not depend on the GPU. */
enum { REDUCE_PARTIALS = 2048, REDUCE_CHUNK_BYTES = 32768 };

/* Non-empty buffers of one dtype for one launch, cut into chunks (chunks.h). */
enum { REDUCE_TABLE = 128 };
struct reduce_table {
    int n_buffers;
    int32_t first_chunk[REDUCE_TABLE + 1];
    int64_t n[REDUCE_TABLE];
    const void *x[REDUCE_TABLE];
};

/* The result of a launch: thread block b < n sets partial[b] to its sum, or, if `add`, adds its sum to partial[b]. */
struct reduce_partials { double *partial; int n, add; };

typedef enum status reduce_launcher(void *stream, enum reduction, const struct reduce_table *, struct reduce_partials);
/* *sum += x[0] */
typedef enum status reduce_add_launcher(void *stream, double *sum, const void *x);
/* *out = the sum of n partials. @errors E_DEVICE */
enum status reduce_total_cuda(void *stream, const double *partial, int n, double *out);

#ifdef __cplusplus
}
#endif
