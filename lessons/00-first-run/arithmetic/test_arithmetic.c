/* ranks: 1  device: cpu */
/* The arithmetic of a step, compared with numbers computed by hand. */
#include "lessons/00-first-run/arithmetic/arithmetic.h"
#include "tests/test.h"

static const struct batch demo = {.global_batch = 16, .micro_batch = 2, .dp = 2, .seq = 64};

/* f(b) must be `wanted`; the failure message names f and b. */
#define assert_gives(f, b, wanted) assert_gives_((f), #f, (b), (wanted), __FILE__, __LINE__)
static void assert_gives_(enum status f(const struct batch *, int64_t *), const char *name, struct batch b,
                          int64_t wanted, const char *file, int line) {
    int64_t out = -1;
    assert_ok_(f(&b, &out), name, file, line);
    if (out == wanted) return;
    print_error("%s is %lld, not %lld, for global-batch=%lld micro-batch=%lld dp=%lld seq=%lld\n", name, (long long)out,
                (long long)wanted, (long long)b.global_batch, (long long)b.micro_batch, (long long)b.dp,
                (long long)b.seq);
    _fail(file, line);
}

TEST(test_share_is_the_batch_over_dp) {
    assert_gives(batch_share, demo, 8);
    assert_gives(batch_share, ((struct batch){16, 2, 1, 64}), 16);
    assert_gives(batch_share, ((struct batch){480, 1, 96, 1}), 5);
}

TEST(test_impossible_batches_are_refused) {
    int64_t out = -1;
    assert_fails(batch_share(&(struct batch){16, 2, 3, 64}, &out), E_CONFIG, "dp=3", "global-batch=16");
    assert_fails(batch_microbatches(&(struct batch){16, 2, 3, 64}, &out), E_CONFIG, "dp=3", "global-batch=16");
    assert_fails(batch_microbatches(&(struct batch){16, 3, 2, 64}, &out), E_CONFIG, "micro-batch=3", "8");
    if (out != -1) fail_msg("a call that is refused set its result to %lld; it has to leave it alone", (long long)out);
}

TEST(test_microbatches_cover_the_share) {
    assert_gives(batch_microbatches, demo, 4);
    assert_gives(batch_microbatches, ((struct batch){12, 3, 4, 64}), 1);
}

TEST(test_tokens_count_all_replicas) {
    assert_gives(batch_tokens, demo, 1024);
    assert_gives(batch_tokens, ((struct batch){1 << 20, 1, 1, 1 << 20}), 1LL << 40);
}

/* 1024 tokens of 5 Mflop each are 5.12 Gflop. In 50 ms a machine of 256 Gflop/s can do 12.8 Gflop, so mfu is 0.4. */
TEST(test_mfu_of_the_printed_step) {
    double mfu = -1;
    assert_ok(batch_mfu(&demo, 5e6, 0.05, 256e9, &mfu));
    assert_close(mfu, 0.4, 1e-12);
}

TESTS(unit_test(test_share_is_the_batch_over_dp), unit_test(test_impossible_batches_are_refused),
      unit_test(test_microbatches_cover_the_share), unit_test(test_tokens_count_all_replicas),
      unit_test(test_mfu_of_the_printed_step))
