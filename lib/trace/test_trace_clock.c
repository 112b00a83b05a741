/* ranks: 1 2 4  device: cpu
 *
 * Clocks that are wrong by known amounts, which clock_measure must find. */
#include "lib/base/clock.h"
#include "lib/trace/trace_state.h"
#include "tests/test.h"

/* Delays that differ by direction: the error is half of their difference, and at most half of their sum. */
TEST(test_offset_is_off_by_half_the_round_trip_at_most) {
    static const double ways_s[][2] = {{1e-6, 1e-6}, {1e-6, 9e-6}, {9e-6, 1e-6}, {0, 8e-6}, {8e-6, 0}};
    const double truth_s = 1234.5;                                   /* rank 0's clock minus ours */
    for (size_t i = 0; i < sizeof ways_s / sizeof *ways_s; i++) {
        double sent_s = 10, there_s = sent_s + ways_s[i][0], back_s = there_s + ways_s[i][1];
        struct clock_offset o = clock_offset_of(&(struct clock_ping){sent_s, there_s + truth_s, back_s}, 1);
        double error_s = o.offset_s - truth_s;
        assert_close(error_s, (ways_s[i][0] - ways_s[i][1]) / 2, 1e-12);
        assert_close(o.uncertainty_s, (ways_s[i][0] + ways_s[i][1]) / 2, 1e-12);
        assert_true(fabs(error_s) <= o.uncertainty_s + 1e-12);
    }
}

TEST(test_the_soonest_answer_counts) {
    static const struct clock_ping pings[] = {{0, 105, 10}, {20, 121.5, 22}, {30, 131.4, 33}, {40, 190, 140}};
    struct clock_offset o = clock_offset_of(pings, 4);
    assert_close(o.at_s, 21, 0);
    assert_close(o.offset_s, 100.5, 0);
    assert_close(o.uncertainty_s, 1, 0);
}

/* Our clock gains 1 s in 100 s: rank 0's clock is 50 s behind when ours shows 100, and 51 s behind at 200. */
TEST(test_a_clock_that_runs_fast_is_held_by_two_measurements) {
    const struct clock_offset before = {100, -50, 0}, after = {200, -51, 0};
    assert_close(clock_at_rank_0(&before, &after, 100), 50, 1e-12);
    assert_close(clock_at_rank_0(&before, &after, 150), 99.5, 1e-12);
    assert_close(clock_at_rank_0(&before, &after, 200), 149, 1e-12);
    assert_close(clock_at_rank_0(&before, &after, 300), 248, 1e-12);
    assert_close(clock_at_rank_0(&before, &before, 150), 100, 1e-12);
}

/* Rank r's clock is 100 r seconds ahead of rank 0's. All ranks run on one host, so the host's clock gives the true
 * offset. */
static double skewed_clock(void) { return clock_s() + 100 * comm_world_rank(); }

TEST(test_skewed_clocks_are_found) {
    struct clock_offset o;
    enum status status = clock_measure(group_world(), skewed_clock, &o);
    double error_s = o.offset_s + 100 * comm_world_rank();
    bool right = status == OK && fabs(error_s) <= o.uncertainty_s + 1e-9 && o.uncertainty_s >= 0 &&
                 (!comm_is_rank_0() || o.offset_s == 0);
    assert_true(agree_all(right));
}

TESTS(unit_test(test_offset_is_off_by_half_the_round_trip_at_most), unit_test(test_the_soonest_answer_counts),
      unit_test(test_a_clock_that_runs_fast_is_held_by_two_measurements), unit_test(test_skewed_clocks_are_found))
