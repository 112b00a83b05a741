/* ranks: 1  device: cpu
 *
 * Times by hand: alpha = 1 s, beta = 1/4 s per byte, so a message of 16 bytes takes 5 s. All exact in binary. */
#include "lessons/14-experts/incast/incast.h"
#include "lib/base/rng.h"
#include "tests/test.h"

enum { N = 4 };
static const struct incast_link slow = {1, 0.25};

static double bound(int n, const double *bytes) {
    double s = -1;
    assert_ok(incast_bound(n, bytes, &slow, &s));
    return s;
}

static double rounds(int n, const double *bytes) {
    double s = -1;
    assert_ok(incast_rounds(n, bytes, &slow, &s));
    return s;
}

/* ---- the table ---- */
/* Two ranks with two experts each: rank 0 has 0 and 1. */
TEST(test_incast_table_adds_up_the_experts_of_a_rank) {
    const int64_t choices[2 * 4] = {1, 2, 3, 0, 0, 5, 0, 7};
    const double expected[2 * 2] = {3 * 8, 3 * 8, 5 * 8, 7 * 8};
    double bytes[2 * 2] = {-1, -1, -1, -1}, one[1] = {-1};
    assert_ok(incast_table(2, 4, choices, 8, bytes));
    for (int i = 0; i < 4; i++) assert_close(bytes[i], expected[i], 0);
    assert_ok(incast_table(1, 4, choices, 8, one));
    assert_close(one[0], 6 * 8, 0);
    double four[16];
    assert_fails(incast_table(4, 6, choices, 8, four), E_CONFIG, "4", "6");
}

/* ---- patterns ---- */
TEST(test_incast_balanced_takes_n_minus_1_messages) {
    double bytes[N * N];
    for (int i = 0; i < N * N; i++) bytes[i] = i % (N + 1) ? 16 : 1000;   /* 1000 bytes stay on each rank */
    assert_close(bound(N, bytes), 3 * 5, 0);
    assert_close(rounds(N, bytes), 3 * 5, 0);
    assert_close(bound(1, bytes), 0, 0);
    assert_close(rounds(1, bytes), 0, 0);
}

/* Each rank sends one message of 5 s; the receiver needs 15 s for all. */
TEST(test_incast_many_to_one_waits_for_the_receiver) {
    for (int hot = 0; hot < N; hot++) {
        double bytes[N * N] = {0};
        for (int r = 0; r < N; r++) bytes[r * N + hot] = 16;
        assert_close(bound(N, bytes), 3 * 5, 0);
        assert_close(rounds(N, bytes), 3 * 5, 0);
    }
}

TEST(test_incast_one_to_many_waits_for_the_sender) {
    for (int source = 0; source < N; source++) {
        double bytes[N * N] = {0};
        for (int q = 0; q < N; q++) bytes[source * N + q] = 16;
        assert_close(bound(N, bytes), 3 * 5, 0);
        assert_close(rounds(N, bytes), 3 * 5, 0);
    }
}

/* The busiest link decides, and not the sum of a rank's two links: rank 0 sends for 5 + 3 s and receives for 5 s. */
TEST(test_incast_sends_and_receives_at_once) {
    double bytes[N * N] = {0};
    bytes[0 * N + 1] = 16, bytes[0 * N + 2] = 8, bytes[3 * N + 0] = 16;
    assert_close(bound(N, bytes), 8, 0);
    bytes[2 * N + 0] = 20;                                           /* now rank 0 receives for 5 + 6 s */
    assert_close(bound(N, bytes), 11, 0);
}

TEST(test_incast_no_bytes_are_no_message) {
    double bytes[N * N] = {0};
    assert_close(bound(N, bytes), 0, 0);
    assert_close(rounds(N, bytes), 0, 0);
    bytes[1 * N + 3] = 4;
    assert_close(bound(N, bytes), 2, 0);
    assert_close(rounds(N, bytes), 2, 0);
}

/* ---- rounds ---- */
/* 0 -> 1 is in round 1 and 2 -> 0 in round 2. They use different links, but come one after the other. 1 -> 2 is also in
 * round 1, and adds no time, because it is shorter. */
TEST(test_incast_rounds_last_as_long_as_their_longest_message) {
    double bytes[N * N] = {0};
    bytes[0 * N + 1] = 16, bytes[2 * N + 0] = 28, bytes[1 * N + 2] = 4;
    assert_close(bound(N, bytes), 8, 0);
    assert_close(rounds(N, bytes), 5 + 8, 0);
}

TEST(test_incast_rounds_are_never_below_the_bound) {
    for (uint64_t trial = 0; trial < 50; trial++)
        for (int n = 1; n <= 8; n++) {
            double bytes[8 * 8];
            for (int i = 0; i < n * n; i++) bytes[i] = floor(40 * rng_uniform(1, trial, (uint64_t)i)) - 10;
            for (int i = 0; i < n * n; i++) bytes[i] = bytes[i] < 0 ? 0 : bytes[i];
            double least = bound(n, bytes), most = 0;
            for (int i = 0; i < n * n; i++)
                if (i / n != i % n) most += bytes[i] > 0 ? 1 + 0.25 * bytes[i] : 0;
            assert_true(least <= rounds(n, bytes) && rounds(n, bytes) <= most);
            assert_true(least >= most / n && least >= 0);            /* one of n links has at least the mean */
        }
}

TESTS(unit_test(test_incast_table_adds_up_the_experts_of_a_rank),
      unit_test(test_incast_balanced_takes_n_minus_1_messages),
      unit_test(test_incast_many_to_one_waits_for_the_receiver),
      unit_test(test_incast_one_to_many_waits_for_the_sender), unit_test(test_incast_sends_and_receives_at_once),
      unit_test(test_incast_no_bytes_are_no_message),
      unit_test(test_incast_rounds_last_as_long_as_their_longest_message),
      unit_test(test_incast_rounds_are_never_below_the_bound))
