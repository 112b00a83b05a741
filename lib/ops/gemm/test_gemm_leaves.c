/* ranks: 1  device: cpu */
/* Products by leaves (gemm_leaves.h): the bits do not depend on the shards of the summed axis, on m, on n or on the
 * number of threads, and the results are right. */
#include "lib/base/rng.h"
#include "lib/ops/gemm/gemm.h"
#include "tests/test.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { M = 37, N = 53, LEAVES = 8 };

/* c (M,N) = a (M,k) b (k,N): k is `pieces` runs; of each run a rank has some of the LEAVES leaves of `leaf` numbers. */
struct form { int64_t pieces, leaf, depth; enum dtype dtype; bool transpose_b, plain; };

/* Row i of A, or column i of B, at depth p of the whole k. The numbers are drawn once. */
enum { DEEPEST = 9600 };
static float number(int64_t i, int64_t p, bool of_b) {
    static float *all;
    if (!all) {
        all = malloc((M + N) * DEEPEST * sizeof *all);
        for (int64_t k = 0; k < (M + N) * DEEPEST; k++)
            all[k] = (float)ldexp(rng_normal(7, 1, (uint64_t)k), (int)(k % 7) - 3);
    }
    return all[(i + (of_b ? M : 0)) * DEEPEST + p];
}

/* c = the product of a rank that has leaves first .. first + n - 1. */
static void part(const struct form *f, int first, int n, int64_t rows, float *c) {
    int64_t held = n * f->leaf, k = f->pieces * held, left = f->depth - first * f->leaf;
    struct gemm g = {.m = rows, .n = N, .k = k, .transpose_b = f->transpose_b, .alpha = 1, .ab_dtype = f->dtype,
                     .c_dtype = f->dtype, .plain = f->plain,
                     .leaves = {n, f->pieces, f->leaf, left < 0 ? 0 : left < held ? left : held}};
    size_t size = dtype_size(f->dtype);
    void *a = calloc((size_t)(rows * k), size), *b = calloc((size_t)(k * N), size);
    void *out = malloc((size_t)(rows * N) * size);
    void *work = aligned_alloc(64, (size_t)gemm_work(&g, DEVICE_CPU, omp_get_max_threads()) / 64 * 64 + 64);
    for (int64_t p = 0; p < k; p++) {
        int64_t within = first * f->leaf + p % held, global = p / held * LEAVES * f->leaf + within;
        for (int64_t i = 0; i < rows; i++) dtype_set(a, f->dtype, i * k + p, number(i, global, false));
        for (int64_t j = 0; j < N; j++)
            dtype_set(b, f->dtype, f->transpose_b ? j * k + p : p * N + j, number(j, global, true));
    }
    assert_ok(gemm_run(&g, a, b, NULL, out, work));
    dtype_convert(c, FP32, out, f->dtype, rows * N);
    free(a), free(b), free(out), free(work);
}

static float rounded(float x) { return bf16_to_float(bf16_from_float(x)); }

/* c = the sum over `ranks` ranks, which divide leaves first .. first + n - 1: pairs are added and rounded as by the
 * transport. */
static void by_ranks(const struct form *f, int first, int n, int ranks, float *c) {
    float right[M * N];
    if (ranks == 1) {
        part(f, first, n, M, c);
        return;
    }
    by_ranks(f, first, n / 2, ranks / 2, c);
    by_ranks(f, first + n / 2, n / 2, ranks / 2, right);
    for (int i = 0; i < M * N; i++) {
        c[i] += right[i];
        if (f->dtype == BF16) c[i] = rounded(c[i]);
    }
}

static double worst_error(const struct form *f, const float *c) {
    double worst = 0;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < f->pieces * f->depth; p++) {
                int64_t global = p / f->depth * LEAVES * f->leaf + p % f->depth;
                double x = number(i, global, false), y = number(j, global, true);
                if (f->dtype == BF16) x = rounded((float)x), y = rounded((float)y);
                sum += x * y, size += fabs(x * y);
            }
            worst = fmax(worst, fabs(c[i * N + j] - sum) / size);
        }
    return worst;
}

static const struct form FORMS[] = {
    {1, 16, 128, FP32, false, false}, {3, 5, 40, FP32, false, false}, {1, 17, 131, FP32, true, false},
    {1, 1, 5, FP32, true, false},     {3, 33, 264, BF16, false, false}, {1, 17, 131, BF16, true, false},
    {3, 5, 40, FP32, true, true},     {1, 300, 2400, FP32, false, false}, {2, 600, 4800, BF16, false, false}};
enum { N_FORMS = sizeof FORMS / sizeof *FORMS };

TEST(test_any_number_of_ranks_makes_the_same_bits) {
    static float whole[M * N], c[M * N];
    for (int i = 0; i < N_FORMS; i++) {
        part(&FORMS[i], 0, LEAVES, M, whole);
        /* The bound: a leaf's length of roundings in fp32, then one rounding to the dtype, and one for each level. */
        double u = FORMS[i].dtype == BF16 ? 0x1p-8 : 0x1p-24, length = (double)(FORMS[i].pieces * FORMS[i].leaf);
        assert_true(worst_error(&FORMS[i], whole) < length * 0x1p-24 + 4 * u);
        for (int ranks = 2; ranks <= LEAVES; ranks *= 2) {
            by_ranks(&FORMS[i], 0, LEAVES, ranks, c);
            assert_memory_equal(c, whole, sizeof c);
        }
    }
}

TEST(test_rows_and_threads_change_no_bit) {
    static float whole[M * N], c[M * N];
    int threads = omp_get_max_threads();
    for (int i = 0; i < N_FORMS; i++) {
        part(&FORMS[i], 0, LEAVES, M, whole);
        omp_set_num_threads(3);
        part(&FORMS[i], 0, LEAVES, M, c);
        omp_set_num_threads(threads);
        assert_memory_equal(c, whole, sizeof c);
        for (int64_t rows = 1; rows < M; rows += 5) {
            part(&FORMS[i], 0, LEAVES, rows, c);
            assert_memory_equal(c, whole, (size_t)(rows * N) * sizeof *c);
        }
    }
}

TEST(test_a_product_by_leaves_adds_to_nothing) {
    float x[4] = {0};
    struct gemm g = {.m = 1, .n = 1, .k = 2, .alpha = 1, .beta = 1, .ab_dtype = FP32, .c_dtype = FP32,
                     .leaves = {2, 1, 1, 2}};
    assert_fails(gemm_run(&g, x, x, NULL, x, x), E_INTERNAL, "2 leaves", "beta 1", "summed alone");
}

TESTS(unit_test(test_any_number_of_ranks_makes_the_same_bits), unit_test(test_rows_and_threads_change_no_bit),
      unit_test(test_a_product_by_leaves_adds_to_nothing))
