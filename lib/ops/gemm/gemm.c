#include "lib/ops/gemm/gemm.h"

#include "lib/base/integer.h"
#include "lib/device/arena.h"
#include "lib/ops/gemm/gemm_bf16.h"
#include "lib/ops/gemm/gemm_fp32.h"
#include "lib/ops/gemm/gemm_leaves.h"
#include "lib/ops/gemm/gemm_plain.h"
#include <cblas.h>
#include <omp.h>

/* Edge of the square blocks in which 16-bit matrices are widened. An element is widened once for every BLOCK
 * multiply-adds that read it; three blocks of fp32 fit the second-level cache of a few cores. */
enum { BLOCK = 384 };

/* ---- fp64 ---- */

static enum status fp64_product(const struct gemm *g, const double *a, const double *b, double beta, double *c) {
    if (g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX)
        return FAIL(E_DEVICE, "OpenBLAS takes 32-bit sizes; m=%lld n=%lld k=%lld", (long long)g->m, (long long)g->n,
                    (long long)g->k);
    cblas_dgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)g->m, (blasint)g->n, (blasint)g->k, g->alpha, a, (blasint)gemm_lda(g), b, (blasint)gemm_ldb(g),
                beta, c, (blasint)g->n);
    return OK;
}

/* C = beta C + bias, so that the product can be added with beta 1. */
static void add_bias_fp64(const struct gemm *g, const double *bias, double *c) {
#pragma omp parallel for
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) c[i * g->n + j] = bias[j] + (g->beta == 0 ? 0 : g->beta * c[i * g->n + j]);
}

static enum status fp64_run(const struct gemm *g, const double *a, const double *b, const double *bias, double *c) {
    if (bias) add_bias_fp64(g, bias, c);
    return fp64_product(g, a, b, bias ? 1 : g->beta, c);
}

/* ---- bf16 and fp16: blocks widened to fp32, C kept in fp32 until all of k is summed ---- */

/* Block sizes; scratch of (m,k), (k,n) and (m,n) numbers, in that order; and the scratch of the blocks' product. */
struct blocks { int64_t m, n, k; float *a, *b, *c; void *product; };

static struct blocks blocks_of(const struct gemm *g, void *work) {
    struct blocks s = {min64(g->m, BLOCK), min64(g->n, BLOCK), min64(g->k, BLOCK), work, NULL, NULL, NULL};
    if (work) s.b = s.a + s.m * s.k, s.c = s.b + s.k * s.n, s.product = s.c + s.m * s.n;
    return s;
}

static struct gemm block_product(const struct gemm *g, int64_t m, int64_t n, int64_t k) {
    struct gemm part = *g;
    part.m = m, part.n = n, part.k = k;
    part.beta = 1;
    part.lda = part.ldb = 0;
    part.ab_dtype = part.c_dtype = FP32;
    return part;
}

/* cuBLASLt's workspace holds partial sums of C, when the library cuts a long k in pieces so that the whole GPU has
 * work. NVIDIA recommends 32 MiB for Hopper. If 32 pieces of C need less, less is planned, so that small models plan
 * little. */
int64_t gemm_cuda_workspace(const struct gemm *g) {
    const int64_t least = 64 << 10, most = 32 << 20, pieces = 32;
    int64_t bytes =
        arena_align_on(DEVICE_CUDA, pieces * g->m * g->n * (int64_t)dtype_size(dtype_accumulator(g->ab_dtype)));
    return bytes < least ? least : min64(bytes, most);
}

int64_t gemm_work(const struct gemm *g, enum device_kind on, int n_threads) {
    if (on == DEVICE_CUDA) return gemm_cuda_workspace(g);
    if (g->leaves.n) return gemm_leaves_work(g, n_threads);
    if (g->plain || g->ab_dtype == FP64) return 0;
    if (g->ab_dtype == FP32) return gemm_fp32_work(g);
    if (gemm_bf16_can(g)) return gemm_bf16_work(g, n_threads);
    struct blocks s = blocks_of(g, NULL);
    struct gemm block = block_product(g, s.m, s.n, s.k);
    return (int64_t)sizeof(float) * (s.m * s.k + s.k * s.n + s.m * s.n) + gemm_fp32_work(&block);
}

/* Copy the (rows, columns) block at (row, column) of a matrix with `stride` elements a row to fp32, or back. */
static void block_copy(void *to, enum dtype to_dtype, int64_t to_stride, const void *from, enum dtype from_dtype,
                       int64_t from_stride, int64_t rows, int64_t columns) {
    int64_t to_bytes = to_stride * (int64_t)dtype_size(to_dtype),
            from_bytes = from_stride * (int64_t)dtype_size(from_dtype);
#pragma omp parallel for
    for (int64_t i = 0; i < rows; i++)
        dtype_convert((char *)to + i * to_bytes, to_dtype, (const char *)from + i * from_bytes, from_dtype, columns);
}

static const void *at(const void *x, enum dtype d, int64_t i) { return (const char *)x + i * (int64_t)dtype_size(d); }

/* Widen the block of op(X) at (row, column), in X's order: to (rows, columns), or to (columns, rows) if transposed. */
static void widen(float *to, const void *x, enum dtype dtype, bool transposed, int64_t stride, int64_t row,
                  int64_t column, int64_t rows, int64_t columns) {
    if (transposed)
        block_copy(to, FP32, rows, at(x, dtype, column * stride + row), dtype, stride, columns, rows);
    else
        block_copy(to, FP32, columns, at(x, dtype, row * stride + column), dtype, stride, rows, columns);
}

/* The start value of a block of C: beta C + bias. */
static void start_block(const struct gemm *g, const void *bias, const void *c, float *block, int64_t i, int64_t j,
                        int64_t rows, int64_t columns) {
    float beta = (float)g->beta;
    if (beta != 0) block_copy(block, FP32, columns, at(c, g->c_dtype, i * g->n + j), g->c_dtype, g->n, rows, columns);
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        for (int64_t q = 0; q < columns; q++)
            block[r * columns + q] = (beta == 0 ? 0 : beta * block[r * columns + q]) +
                                     (bias ? (float)dtype_get(bias, g->ab_dtype, j + q) : 0);
}

/* One block of C: start, add the products over all of k, round once. */
static void narrow_block(const struct gemm *g, const struct blocks *s, const void *a, const void *b,
                                const void *bias, void *c, int64_t i, int64_t j) {
    struct gemm part = block_product(g, min64(s->m, g->m - i), min64(s->n, g->n - j), 0);
    start_block(g, bias, c, s->c, i, j, part.m, part.n);
    for (int64_t p = 0; p < g->k; p += s->k) {
        part.k = min64(s->k, g->k - p);
        widen(s->a, a, g->ab_dtype, g->transpose_a, gemm_lda(g), i, p, part.m, part.k);
        widen(s->b, b, g->ab_dtype, g->transpose_b, gemm_ldb(g), p, j, part.k, part.n);
        gemm_fp32_run(&part, s->a, gemm_lda(&part), s->b, gemm_ldb(&part), NULL, s->c, part.n, s->product);
    }
    char *to = (char *)c + (i * g->n + j) * (int64_t)dtype_size(g->c_dtype);
    block_copy(to, g->c_dtype, g->n, s->c, FP32, part.n, part.m, part.n);
}

static void narrow(const struct gemm *g, const void *a, const void *b, const void *bias, void *c, void *work) {
    struct blocks s = blocks_of(g, work);
    for (int64_t j = 0; j < g->n; j += s.n)
        for (int64_t i = 0; i < g->m; i += s.m) narrow_block(g, &s, a, b, bias, c, i, j);
}

enum status gemm_run(const struct gemm *g, const void *a, const void *b, const void *bias, void *c, void *work) {
    static gemm_plain *const plain[N_DTYPES] = {[FP64] = gemm_plain_cpu_fp64, [FP32] = gemm_plain_cpu_fp32,
                                                [BF16] = gemm_plain_cpu_bf16, [FP16] = gemm_plain_cpu_fp16};
    if (g->m == 0 || g->n == 0) return OK;
    if (g->leaves.n) return gemm_leaves_run(g, a, b, bias, c, work);
    if (g->plain) {
        plain[g->ab_dtype](g, a, b, bias, c);
        return OK;
    }
    if (g->ab_dtype == FP64) return fp64_run(g, a, b, bias, c);
    int64_t bytes = gemm_work(g, DEVICE_CPU, omp_get_max_threads());
    if (!work && bytes > 0)
        return FAIL(E_INTERNAL,
                    "a product of m=%lld n=%lld k=%lld in %s needs %lld bytes of scratch, and has none; give it "
                    "gemm_work bytes",
                    (long long)g->m, (long long)g->n, (long long)g->k, dtype_name(g->ab_dtype), (long long)bytes);
    if (g->ab_dtype == FP32)
        gemm_fp32_run(g, a, gemm_lda(g), b, gemm_ldb(g), bias, c, g->n, work);
    else if (gemm_bf16_can(g))
        gemm_bf16_run(g, a, b, bias, c, work);
    else
        narrow(g, a, b, bias, c, work);
    return OK;
}
