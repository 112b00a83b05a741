/* Reductions on a CUDA device: the host's part. It passes the buffers to the kernels in tables, one dtype per table. */
#include "lib/ops/reduce_kernels.h"

reduce_launcher reduce_partials_cuda_fp64, reduce_partials_cuda_fp32, reduce_partials_cuda_bf16,
    reduce_partials_cuda_fp16;
reduce_add_launcher reduce_add_cuda_fp64, reduce_add_cuda_fp32, reduce_add_cuda_bf16, reduce_add_cuda_fp16;

static int64_t chunks_of(const struct reduce_buffer *b) {
    return (b->n * (int64_t)dtype_size(b->dtype) + REDUCE_CHUNK_BYTES - 1) / REDUCE_CHUNK_BYTES;
}

static void table_add(struct reduce_table *t, const struct reduce_buffer *b) {
    int i = t->n_buffers++;
    t->x[i] = b->x;
    t->n[i] = b->n;
    t->first_chunk[i + 1] = t->first_chunk[i] + (int32_t)chunks_of(b);
}

/* Reduce the buffers of one dtype, REDUCE_TABLE per launch. The first launch of a reduction sets the partial sums, and
 * the others add to them. */
static enum status reduce_dtype(void *stream, reduce_launcher *launch, enum reduction what, enum dtype dtype,
                                const struct reduce_buffer *b, int n, struct reduce_partials *partials) {
    struct reduce_table table = {0};
    for (int i = 0; i <= n; i++) {
        if (table.n_buffers == REDUCE_TABLE || (i == n && table.n_buffers > 0)) {
            TRY(launch(stream, what, &table, *partials));
            partials->add = 1;
            table.n_buffers = 0;
        }
        if (i < n && b[i].dtype == dtype && b[i].n > 0) table_add(&table, &b[i]);
    }
    return OK;
}

/* One thread block for each chunk of all buffers, at most REDUCE_PARTIALS. */
static int n_blocks(const struct reduce_buffer *b, int n) {
    int64_t chunks = 0;
    for (int i = 0; i < n; i++) chunks += chunks_of(&b[i]);
    return chunks < REDUCE_PARTIALS ? (int)chunks : REDUCE_PARTIALS;
}

enum status reduce_cuda(const struct device *device, enum reduction what, const struct reduce_buffer *b, int n,
                        double *out, void *work) {
    static reduce_launcher *const launch[] = {[FP64] = reduce_partials_cuda_fp64, [FP32] = reduce_partials_cuda_fp32,
                                              [BF16] = reduce_partials_cuda_bf16, [FP16] = reduce_partials_cuda_fp16};
    struct reduce_partials partials = {work, n_blocks(b, n), 0};
    for (enum dtype d = FP64; d <= FP16; d++) TRY(reduce_dtype(device->stream, launch[d], what, d, b, n, &partials));
    return reduce_total_cuda(device->stream, partials.partial, partials.n, out);   /* 0 if partials.n is 0 */
}

enum status reduce_add_cuda(const struct device *device, double *sum, const void *x, enum dtype dtype) {
    static reduce_add_launcher *const launch[] = {[FP64] = reduce_add_cuda_fp64, [FP32] = reduce_add_cuda_fp32,
                                                  [BF16] = reduce_add_cuda_bf16, [FP16] = reduce_add_cuda_fp16};
    return launch[dtype](device->stream, sum, x);
}
