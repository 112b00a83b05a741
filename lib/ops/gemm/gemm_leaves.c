#include "lib/ops/gemm/gemm_leaves.h"

#include "lib/base/integer.h"
#include "lib/device/arena.h"
#include <omp.h>

enum { MOST_LEVELS = 16, ALONE = 16 << 10 };   /* so few elements are not worth a second thread */

static int levels_of(const struct gemm *g) {
    int n = 0;
    while (1 << n < g->leaves.n) n++;
    return n;
}

/* A piece of a leaf, n numbers deep. started: C has the sum of earlier pieces, to which this one is added. */
static struct gemm part_of(const struct gemm *g, int64_t n, bool started) {
    struct gemm part = *g;
    part.k = n;
    part.lda = gemm_lda(g), part.ldb = gemm_ldb(g);
    part.beta = started;
    part.c_dtype = FP32;
    part.leaves.n = 0;
    return part;
}

static int64_t part_work(const struct gemm *g, int n_threads) {
    struct gemm longest = part_of(g, min64(g->leaves.leaf, g->leaves.depth), false);
    return arena_align(gemm_work(&longest, DEVICE_CPU, n_threads));
}
static int64_t sums_bytes(const struct gemm *g) { return arena_align(g->m * g->n * (int64_t)sizeof(float)); }

int64_t gemm_leaves_work(const struct gemm *g, int n_threads) {
    return part_work(g, n_threads) + levels_of(g) * sums_bytes(g) + g->m * g->n * (int64_t)sizeof(float);
}

static const void *at(const void *x, enum dtype d, int64_t i) { return (const char *)x + i * (int64_t)dtype_size(d); }

static void round_to(float *x, int64_t n, enum dtype dtype) {
    if (dtype == FP32) return;
#pragma omp parallel for if (n > ALONE)
    for (int64_t i = 0; i < n; i++) x[i] = dtype == BF16 ? bf16_to_float(bf16_from_float(x[i]))
                                                         : fp16_to_float(fp16_from_float(x[i]));
}

static enum status leaf(const struct gemm *g, int s, const void *a, const void *b, float *sum, void *work) {
    int64_t piece = g->k / g->leaves.pieces, from = s * g->leaves.leaf;
    int64_t n = min64(g->leaves.leaf, g->leaves.depth - from);
    struct gemm part = part_of(g, n > 0 ? n : 0, false);
    for (int64_t j = 0; j < g->leaves.pieces; j++, from += piece) {
        int64_t to_a = n <= 0 ? 0 : from * (g->transpose_a ? part.lda : 1);
        int64_t to_b = n <= 0 ? 0 : from * (g->transpose_b ? 1 : part.ldb);
        part.beta = j > 0;
        TRY(gemm_run(&part, at(a, g->ab_dtype, to_a), at(b, g->ab_dtype, to_b), NULL, sum, work));
    }
    round_to(sum, g->m * g->n, g->c_dtype);
    return OK;
}

static void add(float *sum, const float *x, int64_t n, enum dtype dtype) {
#pragma omp parallel for simd if (n > ALONE)
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
    round_to(sum, n, dtype);
}

enum status gemm_leaves_run(const struct gemm *g, const void *a, const void *b, const void *bias, void *c, void *work) {
    float *waiting[MOST_LEVELS], *sum;
    int levels = levels_of(g);
    int64_t n = g->m * g->n;
    char *sums = (char *)work + part_work(g, omp_get_max_threads());
    if (g->alpha != 1 || g->beta != 0 || bias || g->ab_dtype == FP64 || levels >= MOST_LEVELS)
        return FAIL(E_INTERNAL,
                    "a product by %d leaves in %s with alpha %g, beta %g and %s bias; leaves are summed alone",
                    g->leaves.n, dtype_name(g->ab_dtype), g->alpha, g->beta, bias ? "a" : "no");
    for (int l = 0; l < levels; l++) waiting[l] = (float *)(sums + l * sums_bytes(g));
    sum = (float *)(sums + levels * sums_bytes(g));
    for (int s = 0; s < g->leaves.n; s++) {
        int level = 0;
        TRY(leaf(g, s, a, b, sum, work));
        for (; s >> level & 1; level++) add(sum, waiting[level], n, g->c_dtype);
        if (s + 1 == g->leaves.n) break;
        float *next = waiting[level];
        waiting[level] = sum;
        sum = next;
    }
    dtype_convert(c, g->c_dtype, sum, FP32, n);
    return OK;
}
