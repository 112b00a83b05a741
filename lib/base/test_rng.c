/* ranks: 1  device: cpu */
#include "lib/base/rng.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

/* Source: Random123 1.09, tests/kat_vectors, the lines "philox4x32 10". */
TEST(test_philox_matches_the_published_vectors) {
    struct vector { struct philox_counter counter; struct philox_key key; struct philox_counter expected; };
    static const struct vector known[] = {
        {{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, {{0xffffffff, 0xffffffff}},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct philox_counter got = philox(known[i].counter, known[i].key);
        assert_memory_equal(&got, &known[i].expected, sizeof got);
    }
}

TEST(test_stream_is_fnv_1a) {
    /* source: draft-eastlake-fnv, appendix C */
    assert_true(rng_stream("") == UINT64_C(0xcbf29ce484222325));
    assert_true(rng_stream("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(rng_stream("foobar") == UINT64_C(0x85944171f73967e8));
}

/* Golden numbers: a change of keys or of their mapping to numbers changes every run's initial weights. */
TEST(test_numbers_never_change) {
    uint64_t stream = rng_stream("wte");
    struct philox_key key = rng_key(1234, stream, 5);
    assert_int_equal(key.v[0], 0x8a980665);
    assert_int_equal(key.v[1], 0xf8d980d0);
    assert_close(rng_uniform(1234, stream, 7), 0.56026921013835818, 0);
    /* the C library's log and cos may differ in an ulp or two */
    assert_close(rng_normal(1234, stream, 7), -0.87290091181197782, 8 * 1.2e-16);
    assert_int_equal(rng_permute(1234, stream, 0, 1000, 3), 939);
}

TEST(test_key_depends_on_each_argument) {
    struct philox_key base = rng_key(1, 2, 3), other[] = {rng_key(2, 2, 3), rng_key(1, 3, 3), rng_key(1, 2, 4),
                                                          rng_key(2, 1, 3), rng_key(1, 3, 2)};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_memory_not_equal(&base, &other[i], sizeof base);
}

/* The tolerances below are five standard deviations of the statistic, for N independent draws. */
enum { N = 200000 };

TEST(test_uniform_has_mean_variance_and_no_correlation) {
    double sum = 0, squares = 0, lagged = 0, before = 0;
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(42, 7, (uint64_t)i) - 0.5;
        assert_true(u > -0.5 && u < 0.5);
        sum += u, squares += u * u, lagged += u * before;
        before = u;
    }
    assert_close(sum / N, 0, 5 * sqrt(1.0 / 12 / N));
    assert_close(squares / N, 1.0 / 12, 5 * sqrt(1.0 / 180 / N)); /* var(u^2) = 1/80 - 1/144 = 1/180 */
    assert_close(lagged / N, 0, 5 * (1.0 / 12) / sqrt(N));
}

TEST(test_normal_has_the_moments_of_a_normal) {
    double moment[5] = {0};
    for (int i = 0; i < N; i++) {
        double x = rng_normal(42, 7, (uint64_t)i);
        assert_true(isfinite(x));
        for (int k = 1; k <= 4; k++) moment[k] += pow(x, k) / N;
    }
    /* var(x^k) = E x^2k - (E x^k)^2 = 1, 2, 15, 96 */
    assert_close(moment[1], 0, 5 * sqrt(1.0 / N));
    assert_close(moment[2], 1, 5 * sqrt(2.0 / N));
    assert_close(moment[3], 0, 5 * sqrt(15.0 / N));
    assert_close(moment[4], 3, 5 * sqrt(96.0 / N));
}

TEST(test_elements_beyond_32_bits_are_distinct) {
    uint64_t far = UINT64_C(1) << 32;
    assert_true(rng_uniform(1, 1, 5) != rng_uniform(1, 1, 5 + far));
    assert_true(rng_normal(1, 1, 5) != rng_normal(1, 1, 5 + far));
}

TEST(test_permute_is_a_bijection) {
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, 4097, 65537};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t n = sizes[s];
        char *seen = calloc(n, 1);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t place = rng_permute(3, 5, 8, n, i);
            assert_true(place < n && !seen[place]);
            seen[place] = 1;
        }
        free(seen);
    }
}

TEST(test_permute_reaches_the_largest_domains) {
    uint64_t n = UINT64_MAX, a = rng_permute(1, 1, 1, n, 0), b = rng_permute(1, 1, 1, n, n - 1);
    assert_true(a < n && b < n && a != b);
    n = (UINT64_C(1) << 40) + 1;
    assert_true(rng_permute(1, 1, 1, n, n - 1) < n);
}

/* Over D keys, element 0 lands on each of n places equally often: counts are binomial(D, 1/n) within 5 deviations. */
TEST(test_permute_is_fair) {
    enum { DRAWS = 60000, PLACES = 6 };
    int count[PLACES] = {0};
    for (uint64_t step = 0; step < DRAWS; step++) count[rng_permute(9, 9, step, PLACES, 0)]++;
    double expected = (double)DRAWS / PLACES, deviation = sqrt(expected * (1 - 1.0 / PLACES));
    for (int i = 0; i < PLACES; i++) assert_close(count[i], expected, 5 * deviation);
}

/* The number of fixed points of a random permutation has mean 1 for every n, and is nearly Poisson(1) distributed. */
TEST(test_permute_leaves_little_in_place) {
    int fixed = 0;
    for (uint64_t step = 0; step < 100; step++)
        for (uint64_t i = 0; i < 500; i++) fixed += rng_permute(9, 9, step, 500, i) == i;
    assert_close(fixed, 100, 5 * sqrt(100));
}

TESTS(unit_test(test_philox_matches_the_published_vectors), unit_test(test_stream_is_fnv_1a),
      unit_test(test_numbers_never_change), unit_test(test_key_depends_on_each_argument),
      unit_test(test_uniform_has_mean_variance_and_no_correlation), unit_test(test_normal_has_the_moments_of_a_normal),
      unit_test(test_elements_beyond_32_bits_are_distinct), unit_test(test_permute_is_a_bijection),
      unit_test(test_permute_reaches_the_largest_domains), unit_test(test_permute_is_fair),
      unit_test(test_permute_leaves_little_in_place))
