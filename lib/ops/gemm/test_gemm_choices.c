/* ranks: 1  device: any
 *
 * Candidates of a product are timed, the fastest is kept and run, and no product is timed twice. On the emulated device
 * SIMT_ALGORITHMS gives the fake cuBLASLt's number of algorithms, and the time of each. */
#define SIMT_WEAK
#include "lib/ops/gemm/gemm_choices.h"

#include "lib/ops/gemm/test_gemm.h"
#include "tests/simt/simt_test.h"

/* An algorithm of the fake library sums k in two pieces or in one, with other bits (fake_cublaslt.c). */
static const struct gemm fp32 = {.m = 8, .n = 8, .k = 300, .alpha = 1, .ab_dtype = FP32, .c_dtype = FP32};

extern int64_t simt_host_waits(void) __attribute__((weak));      /* tests/simt/fake.h, which is C++ */

static bool is_emulated(void) { return test_device()->kind == DEVICE_CUDA && simt_host_waits; }

static void begin(const char *algorithms) {
    gemm_choices_keep(0);
    gemm_choice_add(&(struct gemm_choice){.product = "none"});   /* plans that earlier tests made are dropped */
    gemm_choices_keep(0);
    setenv("SIMT_ALGORITHMS", algorithms, 1);
}
static void end(void) {
    gemm_choices_time(false);
    gemm_choices_keep(0);
    unsetenv("SIMT_ALGORITHMS");
}

/* Time a product, as before the first step; C then holds arbitrary numbers. @return the table's only row, or NULL */
static const struct gemm_choice *time_it(struct gemm g, bool bias) {
    struct product p = product_operands(g, bias);
    int n;
    gemm_choices_time(true);
    assert_ok(product_run(&p, 0));
    gemm_choices_time(false);
    product_free(&p);
    const struct gemm_choice *c = gemm_choices(&n);
    return n == 1 ? c : NULL;
}

/* Run a product, and check it. Returns C, which the caller frees. */
static float *bits_of(struct gemm g) {
    struct product p = product_new(g, false);
    assert_ok(product_run(&p, 0));
    for (int64_t i = 0; i < g.m * g.n; i++) assert_close(dtype_get(p.c, FP32, i), p.expected[i], 1e-3);
    float *c = p.c;
    p.c = NULL;
    product_free(&p);
    return c;
}

TEST(test_the_fastest_is_kept_and_run) {
    if (!is_emulated()) skip();
    begin("50,10,30");
    float *first = bits_of(fp32);
    const struct gemm_choice *c = time_it(fp32, false);
    assert_non_null(c);
    assert_true(c->used && c->first_s > 49 && c->seconds > 9 && c->seconds < 29);
    float *fastest = bits_of(fp32);
    begin("50,80,30");
    assert_non_null(time_it(fp32, false));
    float *third = bits_of(fp32);
    assert_memory_not_equal(first, fastest, 64 * sizeof(float));
    assert_memory_equal(first, third, 64 * sizeof(float));               /* two pieces, as with the first */
    free(first), free(fastest), free(third);
    end();
}

/* A gain below a hundredth counts as noise. A candidate that refuses to run ("x") is left out. */
TEST(test_the_first_stays_where_little_is_won) {
    if (!is_emulated()) skip();
    begin("1000,995,x");
    const struct gemm_choice *c = time_it(fp32, false);
    assert_non_null(c);
    assert_true(c->seconds == c->first_s);
    end();
}

TEST(test_nothing_is_timed_twice) {
    if (!is_emulated()) skip();
    begin("50,10");
    struct gemm added = fp32;
    added.beta = 1;                                                      /* the same product */
    assert_non_null(time_it(fp32, false));
    int64_t waits = simt_host_waits(), version = gemm_choices_version();
    assert_non_null(time_it(added, false));
    int64_t again = simt_host_waits() - waits;
    free(bits_of(fp32));
    assert_true(again <= simt_host_waits() - waits - again);             /* no more waits than to multiply */
    assert_int_equal(gemm_choices_version(), version);
    assert_null(time_it(fp32, true));                                    /* with a bias: a second product */
    end();
}

/* A product that adds to C, as for a second microbatch, is right after its candidates have run many times. */
TEST(test_a_timed_sum_is_added_once) {
    if (!is_emulated()) skip();
    begin("50,10,30");
    struct gemm added = fp32;
    added.beta = 1;
    assert_non_null(time_it(added, false));
    free(bits_of(added));
    end();
}

/* The table's algorithm runs, although a new timing would choose another. Plans of an older table are dropped. */
TEST(test_the_table_decides) {
    if (!is_emulated()) skip();
    begin("50,10");
    struct gemm_choice kept = *time_it(fp32, false);
    float *fastest = bits_of(fp32);
    begin("10,50");
    float *first = bits_of(fp32);
    gemm_choice_add(&kept);
    assert_non_null(time_it(fp32, false));
    float *again = bits_of(fp32);
    assert_memory_equal(fastest, again, 64 * sizeof(float));
    assert_memory_not_equal(fastest, first, 64 * sizeof(float));
    kept.algorithm[0] ^= 1;
    gemm_choices_keep(0);
    gemm_choice_add(&kept);
    struct product p = product_operands(fp32, false);
    assert_fails(product_run(&p, 0), E_DEVICE, "8 x 8 x 300", "remove the file");
    product_free(&p);
    free(fastest), free(first), free(again);
    end();
}

TESTS(unit_test(test_the_fastest_is_kept_and_run), unit_test(test_the_first_stays_where_little_is_won),
      unit_test(test_nothing_is_timed_twice), unit_test(test_a_timed_sum_is_added_once),
      unit_test(test_the_table_decides))
