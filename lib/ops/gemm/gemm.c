#include "lib/ops/gemm/gemm.h"

#include "lib/base/integer.h"
#include "lib/device/arena.h"
#include "lib/ops/gemm/gemm_fp32.h"
#include "lib/ops/gemm/gemm_leaves.h"
#include "lib/ops/gemm/gemm_narrow.h"
#include "lib/ops/gemm/gemm_plain.h"
#include <cblas.h>
#include <omp.h>

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
    return gemm_narrow_of(g->ab_dtype)->work(g, n_threads);
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
    else
        gemm_narrow_of(g->ab_dtype)->run(g, a, b, bias, c, work);
    return OK;
}
