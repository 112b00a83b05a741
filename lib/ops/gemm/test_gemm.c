/* ranks: 1  device: any */
#include "lib/ops/gemm/test_gemm.h"

#ifdef TRIVIUM_CUDA
#include <cublasLt.h>
#endif

/* Check a product against the formula; on the CPU also by the plain loops. */
static void check(struct gemm g, bool bias, int shifted) {
    for (int plain = 0; plain < (test_device()->kind == DEVICE_CPU ? 2 : 1); plain++) {
        g.plain = plain;
        struct product p = product_new(g, bias);
        assert_ok(product_run(&p, shifted));
        assert_product(&p);
        product_free(&p);
    }
}

TEST(test_gemm_every_transpose_scalar_and_type) {
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int which = 0; which < 16; which++) {
            check(odd(d, d, which), false, 0);
            check(odd(d, d, which), true, 0);
            if (dtype_accumulator(d) != d) check(odd(d, dtype_accumulator(d), which), false, 0);
        }
}

/* The fake cuBLASLt offers no algorithm that adds the bias, if SIMT_EPILOGUES is 0. No other test has these sizes,
 * because plans are kept. */
TEST(test_gemm_adds_a_bias_that_the_library_does_not) {
    setenv("SIMT_EPILOGUES", "0", 1);
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int which = 0; which < 8; which++) {
            struct gemm g = odd(d, d, which);
            g.m = 19, g.n = which & 1 ? 300 : 1;
            check(g, true, 0);
        }
    unsetenv("SIMT_EPILOGUES");
}

/* Larger than a block of the CPU's 16-bit product, in sizes that a vector divides and sizes that it does not. */
TEST(test_gemm_of_larger_matrices) {
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int which = 0; which < 4; which++) {
            struct gemm g = odd(d, d, which);
            g.m = 72, g.n = 136, g.k = 400;
            check(g, true, 0);
            g.m = 67, g.n = 131, g.k = 399, g.beta = 1;
            check(g, false, 0);
            g.m = 70, g.n = 50, g.k = 2100;          /* several passes over k; with A transposed, either side may be the
                                                      * smaller */
            check(g, true, 0);
            g.m = 50, g.n = 70;
            check(g, true, 0);
        }
}

/* One row, one column, one term. */
TEST(test_gemm_of_vectors) {
    const int64_t sizes[][3] = {{1, 9, 6}, {9, 1, 6}, {9, 6, 1}, {1, 1, 9}, {1, 1, 1}};
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int i = 0; i < 5; i++)
            for (int which = 0; which < 4; which++) {
                struct gemm g = odd(d, d, which);
                g.m = sizes[i][0], g.n = sizes[i][1], g.k = sizes[i][2];
                check(g, true, 0);
            }
}

/* A plan for aligned operands must not serve unaligned ones. */
TEST(test_gemm_at_any_alignment) {
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int shifted = 0; shifted < 8; shifted++) check(odd(d, d, 2), true, shifted);
}

/* Two calls of one shape with biases at two addresses. */
TEST(test_gemm_reads_the_bias_of_this_call) {
    struct gemm g = odd(FP32, FP32, 2);
    struct product p = product_new(g, true);
    int64_t work_bytes = gemm_work(&g, test_device()->kind, omp_get_max_threads());
    struct there a = there_new(p.a, 4 * 77, 0), b = there_new(p.b, 4 * 55, 0), bias = there_new(p.bias, 4 * 5, 0),
                 zero = there_new((float[5]){0}, 4 * 5, 0), c = there_new(p.c, 4 * 35, 0),
                 work = there_new(NULL, work_bytes, 0);
    assert_ok(run_there(&g, a.at, b.at, zero.at, c.at, work.at));
    assert_ok(run_there(&g, a.at, b.at, bias.at, c.at, work.at));
    there_free(&c, p.c);
    assert_product(&p);
    there_free(&a, NULL), there_free(&b, NULL), there_free(&bias, NULL), there_free(&zero, NULL),
        there_free(&work, NULL);
    product_free(&p);
}

TEST(test_gemm_twice_gives_the_same_bits) {
    for (enum dtype d = FP64; d <= FP16; d++) {
        struct gemm g = odd(d, d, 1);
        g.m = 33, g.n = 65, g.k = 700;
        struct product once = product_new(g, true), twice = product_new(g, true);
        assert_ok(product_run(&once, 0));
        assert_ok(product_run(&twice, 0));
        assert_memory_equal(once.c, twice.c, (size_t)(g.m * g.n) * dtype_size(d));
        product_free(&once);
        product_free(&twice);
    }
}

TEST(test_gemm_of_nothing_summed_is_its_bias_and_what_was_there) {
    if (test_device()->kind != DEVICE_CPU) skip();
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int which = 0; which < 16; which++) {
            struct gemm g = odd(d, d, which);
            g.k = 0;
            struct product p = product_new(g, true);
            assert_ok(product_run(&p, 0));
            assert_product(&p);
            product_free(&p);
        }
}

TEST(test_gemm_says_that_it_has_no_scratch) {
    if (test_device()->kind != DEVICE_CPU) skip();
    float x[77];
    for (enum dtype d = FP32; d <= FP16; d++) {
        struct gemm g = odd(d, d, 1);
        assert_fails(gemm_run(&g, x, x, NULL, x, NULL), E_INTERNAL, "m=7 n=5 k=11", dtype_name(d), "gemm_work");
    }
}

TEST(test_gemm_work_can_be_planned_anywhere) {
    struct gemm g = {.m = 4096, .n = 4096, .k = 4096, .ab_dtype = BF16, .c_dtype = BF16};
    int64_t bytes = gemm_work(&g, DEVICE_CUDA, omp_get_max_threads());
    assert_int_equal(bytes, 32 << 20);
    g.c_dtype = FP32;
    assert_int_equal(gemm_work(&g, DEVICE_CUDA, omp_get_max_threads()), bytes);
    g.m = g.n = 1;
    assert_int_equal(gemm_work(&g, DEVICE_CUDA, omp_get_max_threads()), 64 << 10);
    g.m = 100, g.n = 81;
    assert_int_equal(gemm_work(&g, DEVICE_CUDA, omp_get_max_threads()), arena_align_on(DEVICE_CUDA, 32 * 4 * 8100));
    g.ab_dtype = g.c_dtype = FP32;
    assert_int_equal(gemm_work(&g, DEVICE_CPU, omp_get_max_threads()), 0);
    g.transpose_a = true; /* the smaller side, and room for the last panel */
    assert_int_equal(gemm_work(&g, DEVICE_CPU, omp_get_max_threads()), 4 * 4096 * (81 + 48));
    g.ab_dtype = FP64;
    assert_int_equal(gemm_work(&g, DEVICE_CPU, omp_get_max_threads()), 0);
}

#ifdef TRIVIUM_CUDA
TEST(test_gemm_cuda_refuses_what_cublaslt_cannot) {
    if (test_device()->kind != DEVICE_CUDA) skip();
    struct gemm g = odd(BF16, FP32, 0);
    _Alignas(16) char address[64];
    assert_fails(gemm_cuda_run(&g, test_device(), address, address, address, address, address), E_INTERNAL, "bias",
                 "bf16", "fp32");
    g.k = INT64_C(1) << 31;
    assert_fails(gemm_cuda_run(&g, test_device(), address, address, NULL, address, address), E_DEVICE, "32-bit",
                 "k=2147483648");
    g = odd(BF16, BF16, 0);
    assert_fails(gemm_cuda_run(&g, test_device(), address, address, address + 2, address, address), E_INTERNAL, "bias",
                 "16");
    g = odd(FP64, FP32, 3);
    assert_fails(gemm_cuda_run(&g, test_device(), address, address, NULL, address, address), E_DEVICE, "CUBLAS_STATUS",
                 "m=7 n=5 k=11 A transposed B transposed", "fp64 to fp32");
    g.m = 0;
    assert_ok(gemm_cuda_run(&g, test_device(), NULL, NULL, NULL, NULL, NULL));
}

/* The fake library must refuse what cuBLASLt refuses: sizes of attributes as observed with cuBLASLt 13.1, the rest by
 * its documentation. */
struct raw {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int n;
};
static struct raw raw_new(cublasComputeType_t compute, cudaDataType_t scale) {
    struct raw r = {0};
    uint64_t bytes = 1 << 20;
    assert_int_equal(cublasLtCreate(&r.handle), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatmulDescCreate(&r.operation, compute, scale), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatmulPreferenceCreate(&r.preference), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(
        cublasLtMatmulPreferenceSetAttribute(r.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, 8),
        CUBLAS_STATUS_SUCCESS);
    return r;
}
/* (rows, 8) = (rows, 4) (4, 8) of a type, the first with leading dimension ld */
static bool raw_finds(struct raw *r, cudaDataType_t type, uint64_t rows, int64_t ld, uint64_t inner) {
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatrixLayoutCreate(&a, type, rows, 4, ld);
    cublasLtMatrixLayoutCreate(&b, type, inner, 8, (int64_t)inner);
    cublasLtMatrixLayoutCreate(&c, type, rows, 8, (int64_t)rows);
    cublasStatus_t code =
        cublasLtMatmulAlgoGetHeuristic(r->handle, r->operation, a, b, c, c, r->preference, 1, &r->result, &r->n);
    cublasLtMatrixLayoutDestroy(a), cublasLtMatrixLayoutDestroy(b), cublasLtMatrixLayoutDestroy(c);
    return code == CUBLAS_STATUS_SUCCESS && r->n == 1;
}
static void raw_free(struct raw *r) {
    cublasLtMatmulPreferenceDestroy(r->preference), cublasLtMatmulDescDestroy(r->operation), cublasLtDestroy(r->handle);
}

TEST(test_cublaslt_refuses_descriptions_that_make_no_sense) {
    if (test_device()->kind != DEVICE_CUDA) skip();
    struct raw r = raw_new(CUBLAS_COMPUTE_32F, CUDA_R_32F);
    int64_t wide = 1;
    assert_int_equal(cublasLtMatmulDescSetAttribute(r.operation, CUBLASLT_MATMUL_DESC_TRANSA, &wide, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtMatmulDescSetAttribute(r.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &wide, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(
        cublasLtMatmulPreferenceSetAttribute(r.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &wide, 8),
        CUBLAS_STATUS_INVALID_VALUE);
    assert_true(raw_finds(&r, CUDA_R_32F, 16, 16, 4));
    assert_true(raw_finds(&r, CUDA_R_16BF, 16, 24, 4));
    assert_false(raw_finds(&r, CUDA_R_32F, 16, 8, 4));  /* columns that overlap */
    assert_false(raw_finds(&r, CUDA_R_32F, 16, 16, 5)); /* 4 is not 5 */
    assert_false(raw_finds(&r, CUDA_R_64F, 16, 16, 4)); /* fp64 computed in fp32 */
    raw_free(&r);
    r = raw_new(CUBLAS_COMPUTE_64F, CUDA_R_64F);
    assert_true(raw_finds(&r, CUDA_R_64F, 16, 16, 4));
    assert_false(raw_finds(&r, CUDA_R_32F, 16, 16, 4));
    raw_free(&r);
}
#define CUDA_TESTS                                                                                                     \
    , unit_test(test_gemm_cuda_refuses_what_cublaslt_cannot),                                                          \
        unit_test(test_cublaslt_refuses_descriptions_that_make_no_sense)
#else
#define CUDA_TESTS
#endif

TESTS(unit_test(test_gemm_every_transpose_scalar_and_type), unit_test(test_gemm_adds_a_bias_that_the_library_does_not),
      unit_test(test_gemm_of_larger_matrices),
      unit_test(test_gemm_of_vectors), unit_test(test_gemm_at_any_alignment),
      unit_test(test_gemm_reads_the_bias_of_this_call), unit_test(test_gemm_twice_gives_the_same_bits),
      unit_test(test_gemm_of_nothing_summed_is_its_bias_and_what_was_there),
      unit_test(test_gemm_says_that_it_has_no_scratch),
      unit_test(test_gemm_work_can_be_planned_anywhere) CUDA_TESTS)
