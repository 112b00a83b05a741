/* ranks: 1  device: cpu */
/* The cost formulas compared with numbers computed by hand: alpha = 1 s, beta = 1/4 s per byte, gamma = 1/8 s per byte,
 * all exact in binary. */
#include "lessons/02-collectives/cost/cost.h"
#include "tests/test.h"

static const struct link_cost slow = {1, 0.25, 0.125};

static double seconds(enum all_reduce_algorithm a, int n, double bytes) {
    double s = -1;
    assert_ok(cost_all_reduce(a, n, bytes, &slow, &s));
    return s;
}

/* n = 4, S = 64: six messages of 16 bytes: 6 (1 + 4) = 30; three additions of 16 bytes: 6. */
TEST(test_ring_is_two_times_n_minus_one_steps) {
    assert_close(seconds(RING, 4, 64), 36, 1e-9);
    assert_close(seconds(RING, 2, 64), 2 * (1 + 8) + 4, 1e-9);
    assert_close(seconds(RING, 3, 96), 4 * (1 + 8) + 2 * 4, 1e-9);
    assert_close(seconds(RING, 1, 64), 0, 0);
}

/* n = 4, S = 64: four messages of 64 bytes one after the other: 4 (1 + 16) = 68; two additions: 16. */
TEST(test_tree_counts_rounds) {
    assert_close(seconds(TREE, 4, 64), 84, 1e-9);
    assert_close(seconds(TREE, 8, 64), 6 * 17 + 3 * 8, 1e-9);
    assert_close(seconds(TREE, 5, 64), 6 * 17 + 3 * 8, 1e-9);
    assert_close(seconds(TREE, 3, 64), 4 * 17 + 2 * 8, 1e-9);
    assert_close(seconds(TREE, 1, 64), 0, 0);
}

/* n = 4, S = 64: exchanges of 32, 16, 16, 32 bytes: 4 + 24 = 28; additions of 32 and 16: 6. n = 6: two whole messages
 * and an addition more. */
TEST(test_halving_doubling_is_the_best_of_both) {
    assert_close(seconds(HALVING_DOUBLING, 4, 64), 34, 1e-9);
    assert_close(seconds(HALVING_DOUBLING, 2, 64), seconds(RING, 2, 64), 1e-9);
    assert_close(seconds(HALVING_DOUBLING, 8, 64), 6 + 28 + 7, 1e-9);
    assert_close(seconds(HALVING_DOUBLING, 6, 64), 34 + 2 * 17 + 8, 1e-9);
    assert_close(seconds(HALVING_DOUBLING, 3, 64), 22 + 2 * 17 + 8, 1e-9);
    assert_close(seconds(HALVING_DOUBLING, 1, 64), 0, 0);
}

/* 1 GB over 8 ranks in 0.01 s: 100 GB/s of data, and 175 GB/s on each link. */
TEST(test_bus_bandwidth_is_that_of_nccl_tests) {
    double out = 0;
    assert_ok(cost_bus_bandwidth(8, 1e9, 0.01, &out));
    assert_close(out, 175e9, 1);
    assert_ok(cost_bus_bandwidth(2, 1e9, 0.01, &out));
    assert_close(out, 100e9, 1);
}

TEST(test_crossover_is_where_both_are_equal) {
    for (int n = 4; n <= 1024; n = n * 3 / 2) {
        double bytes = 0;
        assert_ok(cost_crossover(n, &slow, &bytes));
        double ring = (n - 1) * (2 + bytes * 0.625 / n), rounds = ceil(log2(n)), tree = rounds * (2 + bytes * 0.625);
        assert_true(bytes > 0);
        assert_close(ring, tree, 1e-9 * tree);
    }
}

TEST(test_fit_finds_the_line) {
    double bytes[] = {8, 64, 1000, 1e6}, times[4];
    struct link_cost link = {0, 0, 0.125};
    for (int i = 0; i < 4; i++) times[i] = 3e-6 + bytes[i] * 2e-10;
    assert_ok(cost_fit(bytes, times, 4, &link));
    assert_close(link.alpha_s, 3e-6, 1e-12);
    assert_close(link.beta_s, 2e-10, 1e-16);
    assert_close(link.gamma_s, 0.125, 0);
    assert_fails(cost_fit((double[]){8, 8}, times, 2, &link), E_CONFIG, "2");
    assert_fails(cost_fit(bytes, times, 1, &link), E_CONFIG, "1");
}

/* The largest message takes 50 % longer, as a message beyond the cache's size does. A fit of absolute errors goes
 * through it, and alpha is wrong by a factor of 100. In a fit of relative errors the five small messages fix alpha. */
TEST(test_fit_weighs_small_messages_as_much_as_large_ones) {
    double bytes[] = {8, 16, 32, 64, 128, 1e6, 1e7}, times[7];
    struct link_cost link = {0, 0, 0};
    for (int i = 0; i < 7; i++) times[i] = 1e-6 + bytes[i] * 1e-9;
    times[6] *= 1.5;
    assert_ok(cost_fit(bytes, times, 7, &link));
    assert_close(link.alpha_s, 1e-6, 0.1e-6);
    assert_true(link.beta_s > 1e-9 && link.beta_s < 1.5e-9);
}

TESTS(unit_test(test_ring_is_two_times_n_minus_one_steps), unit_test(test_tree_counts_rounds),
      unit_test(test_halving_doubling_is_the_best_of_both), unit_test(test_bus_bandwidth_is_that_of_nccl_tests),
      unit_test(test_crossover_is_where_both_are_equal), unit_test(test_fit_finds_the_line),
      unit_test(test_fit_weighs_small_messages_as_much_as_large_ones))
