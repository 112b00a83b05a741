/* ranks: 1  device: cpu */
/* The arithmetic of a step, against numbers worked out by hand. */
#include "lessons/00-first-run/arithmetic/arithmetic.h"
#include "tests/test.h"

static const struct batch demo = {.global_batch = 16, .micro_batch = 2, .dp = 2, .seq = 64};

static void test_share_is_the_batch_over_dp(void **state) {
    (void)state;
    int64_t share = -1;
    assert_ok(batch_share(&demo, &share));
    assert_int_equal(share, 8);
    assert_ok(batch_share(&(struct batch){16, 2, 1, 64}, &share));
    assert_int_equal(share, 16);
    assert_ok(batch_share(&(struct batch){480, 1, 96, 1}, &share));
    assert_int_equal(share, 5);
}

static void test_impossible_batches_are_refused(void **state) {
    (void)state;
    int64_t out = -1;
    assert_fails(batch_share(&(struct batch){16, 2, 3, 64}, &out), E_CONFIG, "dp=3", "global-batch=16");
    assert_fails(batch_microbatches(&(struct batch){16, 2, 3, 64}, &out), E_CONFIG, "dp=3", "global-batch=16");
    assert_fails(batch_microbatches(&(struct batch){16, 3, 2, 64}, &out), E_CONFIG, "micro-batch=3", "8");
    assert_int_equal(out, -1);
}

static void test_microbatches_cover_the_share(void **state) {
    (void)state;
    int64_t n = -1;
    assert_ok(batch_microbatches(&demo, &n));
    assert_int_equal(n, 4);
    assert_ok(batch_microbatches(&(struct batch){12, 3, 4, 64}, &n));
    assert_int_equal(n, 1);
}

static void test_tokens_count_all_replicas(void **state) {
    (void)state;
    int64_t tokens = -1;
    assert_ok(batch_tokens(&demo, &tokens));
    assert_int_equal(tokens, 1024);
    assert_ok(batch_tokens(&(struct batch){1 << 20, 1, 1, 1 << 20}, &tokens));
    assert_int_equal(tokens, 1LL << 40);
}

/* 1024 tokens of 5 Mflop each are 5.12 Gflop; in 50 ms on a machine of 256 Gflop a second that is 0.4 of what it can do. */
static void test_mfu_of_the_printed_step(void **state) {
    (void)state;
    double mfu = -1;
    assert_ok(batch_mfu(&demo, 5e6, 0.05, 256e9, &mfu));
    assert_close(mfu, 0.4, 1e-12);
}

TESTS(unit_test(test_share_is_the_batch_over_dp), unit_test(test_impossible_batches_are_refused), unit_test(test_microbatches_cover_the_share),
      unit_test(test_tokens_count_all_replicas), unit_test(test_mfu_of_the_printed_step))
