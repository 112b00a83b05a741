/* ranks: 1  device: cpu
 *
 * Drawing a token agrees with the formulas, computed directly. */
#include "lib/base/rng.h"
#include "models/decode/decode_sample.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 50 };

/* Scores with ties: every third score equals its left neighbor. */
static void fill(double logits[N], uint64_t seed) {
    for (int v = 0; v < N; v++) logits[v] = v % 3 == 2 ? logits[v - 1] : 3 * rng_normal(seed, 1, (uint64_t)v);
}

static int32_t token_at(const struct sampling *s, const double *logits, int n, int64_t position) {
    double weights[N];
    int32_t token = -1;
    assert_ok(sample_token(s, logits, n, 0, position, weights, &token));
    return token;
}

/* Number of tokens before v: those of higher score, and lower tokens of equal score. */
static int rank_of(const double *logits, int n, int v) {
    int before = 0;
    for (int w = 0; w < n; w++) before += logits[w] > logits[v] || (logits[w] == logits[v] && w < v);
    return before;
}

static void check_weights(const double *logits, double temperature, int top_k) {
    double weights[N], sum = 0, own = 0;
    struct sampling s = {temperature, top_k, 1};
    double total = sample_weights(&s, logits, N, weights);
    for (int v = 0; v < N; v++)
        if (top_k == 0 || rank_of(logits, N, v) < top_k) sum += exp(logits[v] / temperature);
    for (int v = 0; v < N; v++) {
        bool candidate = top_k == 0 || rank_of(logits, N, v) < top_k;
        assert_close(weights[v] / total, candidate ? exp(logits[v] / temperature) / sum : 0, 1e-14);
        own += weights[v];
    }
    assert_close(own, total, 0);
}

TEST(test_sample_weights_are_the_softmax_of_the_candidates) {
    for (uint64_t seed = 0; seed < 4; seed++) {
        double logits[N];
        fill(logits, seed);
        for (int k = 0; k <= N + 3; k++) check_weights(logits, k % 2 ? 1 : 0.3, k);
        check_weights(logits, 7, 0);
    }
}

/* All equal, two values, sorted both ways: orders at which a selection easily fails. */
TEST(test_sample_top_k_of_awkward_orders) {
    double logits[N];
    for (int order = 0; order < 5; order++) {
        for (int v = 0; v < N; v++)
            logits[v] = order == 0 ? 1 : order == 1 ? v : order == 2 ? -v : order == 3 ? v % 2 : -(v % 2);
        for (int k = 1; k <= N; k++) check_weights(logits, 2, k);
    }
}

TEST(test_sample_at_temperature_zero_is_the_lowest_of_the_highest) {
    struct sampling s = {0, 0, 1};
    const double ties[] = {1, 5, -2, 5, 5};
    assert_int_equal(token_at(&s, ties, 5, 0), 1);
    for (uint64_t seed = 0; seed < 8; seed++) {
        double logits[N];
        fill(logits, seed);
        int32_t token = token_at(&s, logits, N, (int64_t)seed);
        assert_int_equal(rank_of(logits, N, token), 0);
    }
}

/* Cold: only the highest token remains, even if scores are huge and differ little. Hot: all tokens are equally
 * likely. */
TEST(test_sample_temperature_limits) {
    double logits[N], weights[N];
    fill(logits, 5);
    for (int v = 0; v < N; v++) logits[v] += 1000;
    logits[17] = 1100;
    struct sampling cold = {1e-300, 0, 1}, hot = {1e6, 0, 1}, one = {5, 1, 1};
    assert_close(sample_weights(&cold, logits, N, weights), 1, 0);
    for (int64_t p = 0; p < 20; p++) {
        assert_int_equal(token_at(&cold, logits, N, p), 17);
        assert_int_equal(token_at(&one, logits, N, p), 17);
    }
    double sum = sample_weights(&hot, logits, N, weights);
    /* scores differ by at most 115: e^(115/1e6) */
    for (int v = 0; v < N; v++) assert_close(weights[v] / sum, 1. / N, 2e-4 / N);
}

/* As u grows, the tokens are picked in order, each over a part of [0, 1) that is proportional to its weight. */
TEST(test_sample_pick_goes_by_the_running_sum) {
    const double weights[] = {0, 2, 0, 1, 5, 0};
    for (int i = 0; i < 8; i++) assert_int_equal(sample_pick(weights, 6, 8, (i + 0.5) / 8), i < 2 ? 1 : i < 3 ? 3 : 4);
    assert_int_equal(sample_pick(weights, 6, 8, 0), 1);
    assert_int_equal(sample_pick(weights, 6, 8, 1 - 0x1p-33), 4);
    assert_int_equal(sample_pick(weights, 6, 8, 1), 4);              /* u x sum may round to sum: still a candidate */
}

/* Frequencies in 20000 draws. For 20 tokens sum (seen - expected)^2 / expected has mean 19 and standard deviation
 * sqrt(38) = 6.2: 50 is five deviations away, and a wrong draw gives thousands. */
TEST(test_sample_frequencies_are_the_probabilities) {
    enum { TOKENS = 20, DRAWS = 20000 };
    double logits[N], weights[N], chi = 0;
    int seen[TOKENS] = {0};
    fill(logits, 3);
    struct sampling s = {4, 0, 99};
    for (int64_t p = 0; p < DRAWS; p++) seen[token_at(&s, logits, TOKENS, p)]++;
    double sum = sample_weights(&s, logits, TOKENS, weights);
    for (int v = 0; v < TOKENS; v++) {
        double expected = DRAWS * weights[v] / sum;
        assert_true(expected > 20);
        chi += (seen[v] - expected) * (seen[v] - expected) / expected;
    }
    assert_true(chi < 50);
}

TEST(test_sample_draws_follow_seed_and_position_alone) {
    double logits[N];
    fill(logits, 2);
    struct sampling a = {3, 0, 1}, b = {3, 0, 2};
    int by_seed = 0, by_position = 0;
    for (int64_t p = 0; p < 40; p++) {
        assert_int_equal(token_at(&a, logits, N, p), token_at(&a, logits, N, p));
        by_seed += token_at(&a, logits, N, p) != token_at(&b, logits, N, p);
        by_position += token_at(&a, logits, N, p) != token_at(&a, logits, N, p + 1);
    }
    assert_true(by_seed > 10);
    assert_true(by_position > 10);
}

TEST(test_sample_refuses_scores_that_are_not_finite) {
    double logits[] = {1, 2, 3}, weights[3];
    int32_t token;
    struct sampling s = {1, 0, 1};
    logits[1] = NAN;
    assert_fails(sample_token(&s, logits, 3, 0, 7, weights, &token), E_NUMERIC, "token 1", "position 7", "nan");
    logits[1] = INFINITY;
    assert_fails(sample_token(&s, logits, 3, 0, 7, weights, &token), E_NUMERIC, "token 1", "inf");
}

TESTS(unit_test(test_sample_weights_are_the_softmax_of_the_candidates), unit_test(test_sample_top_k_of_awkward_orders),
      unit_test(test_sample_at_temperature_zero_is_the_lowest_of_the_highest),
      unit_test(test_sample_temperature_limits), unit_test(test_sample_pick_goes_by_the_running_sum),
      unit_test(test_sample_frequencies_are_the_probabilities),
      unit_test(test_sample_draws_follow_seed_and_position_alone),
      unit_test(test_sample_refuses_scores_that_are_not_finite))
