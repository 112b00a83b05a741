/* ranks: 1  device: cpu */
/* Slow ranks, by made-up times. */
#include "driver/train/spike.h"
#include "driver/train/straggler.h"
#include "driver/train/train_asked.h"
#include "tests/test.h"
#include <string.h>

enum { N = 6 };

/* Run consecutive windows. `told`[r]: the windows that report rank r, as bits. */
static void windows(struct straggler_rank *of, int n, const double *own_s, int times, unsigned *told) {
    for (int w = 0; w < times; w++) {
        assert_ok(straggler_window(of, n, own_s));
        for (int r = 0; r < n; r++) told[r] |= (unsigned)of[r].told << w;
    }
}

TEST(test_slow_rank_is_told_after_three_windows_and_when_they_double) {
    struct straggler_rank of[N] = {{0}};
    double own_s[N] = {1, 1.1, 0.9, 1, 1, 1.43};
    unsigned told[N] = {0};
    windows(of, N, own_s, 13, told);
    assert_int_equal(told[5], 1 << 2 | 1 << 5 | 1 << 11);
    for (int r = 0; r < 5; r++) assert_int_equal(told[r], 0);
    assert_close(of[5].ratio, 1.43, 1e-15);
    assert_int_equal(of[5].n_slow, 13);
}

TEST(test_one_good_window_ends_the_row) {
    struct straggler_rank of[N] = {{0}};
    double slow[N] = {1, 1, 1, 1, 1, 2}, good[N] = {1, 1, 1, 1, 1, 1.2};
    unsigned told[N] = {0};
    windows(of, N, slow, 2, told);
    windows(of, N, good, 1, told);
    windows(of, N, slow, 2, told);
    assert_int_equal(told[5], 0);
    windows(of, N, slow, 1, told);
    assert_int_equal(told[5], 1);
}

/* Stage 1 has twice the work, which makes no rank slow. One of its ranks is slow. */
TEST(test_ranks_are_compared_with_their_own_stage) {
    struct straggler_rank of[N] = {{0}, {0}, {0}, {.stage = 1}, {.stage = 1}, {.stage = 1}};
    double own_s[N] = {1, 1, 1, 2, 2, 2.5};
    unsigned told[N] = {0};
    windows(of, N, own_s, 3, told);
    for (int r = 0; r < N; r++) assert_int_equal(told[r], r == 5 ? 1 << 2 : 0);
}

TEST(test_two_ranks_and_one) {
    struct straggler_rank two[2] = {{0}}, one[1] = {{0}};
    double own_s[2] = {1.5, 1};
    unsigned told[2] = {0};
    windows(two, 2, own_s, 3, told);
    assert_int_equal(told[0], 1 << 2);
    assert_int_equal(told[1], 0);
    windows(one, 1, own_s, 3, told);
    assert_true(isnan(one[0].ratio));
    assert_int_equal(told[0], 1 << 2);
}

TEST(test_inject_is_read_or_refused) {
    struct straggler_inject inject;
    assert_ok(straggler_inject_parse("", 4, &inject));
    assert_int_equal(inject.what, INJECT_NOTHING);
    assert_int_equal(inject.rank, -1);
    assert_ok(straggler_inject_parse("slow=3,1.5", 4, &inject));
    assert_int_equal(inject.rank, 3);
    assert_close(inject.factor, 1.5, 0);
    assert_int_equal(inject.what, INJECT_SLOW_RANK);
    assert_ok(straggler_inject_parse("link=0,100", 4, &inject));
    assert_int_equal(inject.what, INJECT_SLOW_LINK);
    assert_close(inject.factor, 100, 0);
    static const char *const bad[] = {"slow=4,1.5", "slow=-1,2", "slow=1", "slow=1,", "slow=,2", "slow=1,0.5",
                                      "slow=1,101", "slow=1,2x", "slow=1,nan", "fast=1,2", "slow", "link=4,2",
                                      "link=0,0.5", "linkslow=1,2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(straggler_inject_parse(bad[i], 4, &inject), E_CONFIG, bad[i], "0 to 3", "slow=RANK,FACTOR",
                     "link=RANK,FACTOR");
}

TEST(test_too_few_losses_have_no_limit) {
    struct spike s = {0};
    for (int i = 0; i < SPIKE_FIRST; i++) {
        assert_true(isinf(spike_limit(&s, 6)));
        spike_note(&s, i);
    }
    assert_true(isfinite(spike_limit(&s, 6)));
}

/* Losses 1 and 3 in turn: the mean is 2, and the sum of n squared deviations is n. */
TEST(test_the_limit_is_so_many_standard_deviations_above_the_mean) {
    struct spike s = {0};
    for (int i = 0; i < 20; i++) spike_note(&s, i % 2 ? 3 : 1);
    assert_close(spike_limit(&s, 5), 2 + 5 * sqrt(20.0 / 19), 1e-14);
}

TEST(test_only_the_last_losses_count) {
    struct spike s = {0};
    for (int i = 0; i < 100; i++) spike_note(&s, 1000);
    for (int i = 0; i < SPIKE_WINDOW; i++) spike_note(&s, i % 2 ? 3 : 1);
    assert_close(spike_limit(&s, 1), 2 + sqrt(64.0 / 63), 1e-14);
}

enum { M = 4 };

TEST(test_rank_0_counts_at_first) {
    struct train_identity all[M] = {{1, 2, 0, 0, 0, ""}, {1, 2, 0, 0, 0, ""}, {1, 3, 0, 0, 0, ""}, {5, 2, 0, 0, 0, ""}};
    assert_null(train_identity_differs(all, M, 0));
    assert_null(train_identity_differs(all, M, 1));
    assert_non_null(strstr(train_identity_differs(all, M, 2), "data"));
    assert_non_null(strstr(train_identity_differs(all, M, 3), "options"));
}

/* Rank 0 is new, and differs from the others. */
TEST(test_those_who_take_part_count_later) {
    struct train_identity all[M] = {{1, 3, 7, 0, 0, ""}, {1, 2, 7, 1, 0, ""}, {1, 2, 7, 1, 0, ""}, {1, 2, 7, 0, 0, ""}};
    assert_non_null(strstr(train_identity_differs(all, M, 0), "data"));
    for (int r = 1; r < M; r++) assert_null(train_identity_differs(all, M, r));
}

/* A rank with a different cluster or schedule file would choose another layout. */
TEST(test_small_files_are_compared) {
    struct train_identity all[M] = {{1, 2, 7, 0, 4, ""}, {1, 2, 7, 1, 5, ""}, {1, 2, 7, 1, 5, ""}, {1, 2, 7, 0, 5, ""}};
    assert_non_null(strstr(train_identity_differs(all, M, 0), "cluster"));
    for (int r = 1; r < M; r++) assert_null(train_identity_differs(all, M, r));
}

/* Hosts may have different builds; a new rank must have the build of some rank that takes part. */
TEST(test_a_build_is_known_or_not) {
    struct train_identity all[M] = {{1, 2, 7, 1, 0, ""}, {1, 2, 8, 1, 0, ""}, {1, 2, 8, 0, 0, ""}, {1, 2, 9, 0, 0, ""}};
    for (int r = 0; r < 3; r++) assert_null(train_identity_differs(all, M, r));
    assert_non_null(strstr(train_identity_differs(all, M, 3), "build"));
}

/* Another level of x86-64 rounds differently. */
TEST(test_levels_are_compared) {
    struct train_identity all[M] = {{1, 2, 7, 0, 5, "x86-64-v3"}, {1, 2, 7, 1, 5, "x86-64-v4"},
                                    {1, 2, 7, 1, 5, "x86-64-v4"}, {1, 2, 7, 0, 5, "x86-64-v4"}};
    assert_non_null(strstr(train_identity_differs(all, M, 0), "level of x86-64"));
    for (int r = 1; r < M; r++) assert_null(train_identity_differs(all, M, r));
}

TESTS(unit_test(test_slow_rank_is_told_after_three_windows_and_when_they_double),
      unit_test(test_one_good_window_ends_the_row), unit_test(test_ranks_are_compared_with_their_own_stage),
      unit_test(test_two_ranks_and_one), unit_test(test_inject_is_read_or_refused),
      unit_test(test_too_few_losses_have_no_limit),
      unit_test(test_the_limit_is_so_many_standard_deviations_above_the_mean),
      unit_test(test_only_the_last_losses_count), unit_test(test_rank_0_counts_at_first),
      unit_test(test_those_who_take_part_count_later), unit_test(test_small_files_are_compared),
      unit_test(test_a_build_is_known_or_not), unit_test(test_levels_are_compared))
