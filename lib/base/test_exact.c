/* ranks: 1  device: cpu */
#include "lib/base/auc.h"
#include "lib/base/exact.h"
#include "lib/base/rng.h"
#include "tests/test.h"
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Sums without rounding (exact.h) are right for every order of additions and every division over ranks or threads. */

static double sum_of(const double *x, int n) {
    struct exact sum = {.n_added = 0};
    double numbers[EXACT_NUMBERS];
    for (int i = 0; i < n; i++) exact_add(&sum, x[i]);
    exact_numbers(&sum, numbers);
    return exact_value(numbers);
}
#define SUM(...) sum_of((const double[]){__VA_ARGS__}, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

TEST(test_one_number_is_its_own_sum) {
    const double x[] = {0, 1, -1, 0x1p-149, -0x1p-149, FLT_MAX, 0x1p-298, (double)FLT_MAX * (double)FLT_MAX,
                        0x1.fffffffffffffp10, -0x1.fffffffffffffp-200, 3, 1e-30, -1e30};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) assert_true(SUM(x[i]) == x[i]);
}

/* A sum in fp64 would lose the small term. */
TEST(test_nothing_is_lost) {
    assert_true(SUM(0x1p250, 1, -0x1p250) == 1);
    assert_true(SUM(1, 0x1p-298, -1) == 0x1p-298);
    assert_true(SUM(-0x1p100, 0x1p-100, 0x1p100) == 0x1p-100);
    assert_true(SUM(-1, -2, 5, -2) == 0);
}

/* Rounding is to nearest, ties to even; a bit far below breaks the tie. */
TEST(test_it_is_rounded_once) {
    assert_true(SUM(1, 0x1p-53) == 1);
    assert_true(SUM(1, 0x1p-53, 0x1p-290) == 1 + 0x1p-52);
    assert_true(SUM(1, 0x1p-53, -0x1p-290) == 1);
    assert_true(SUM(1 + 0x1p-52, 0x1p-53) == 1 + 0x1p-51);
    assert_true(SUM(-1, -0x1p-53, -0x1p-290) == -1 - 0x1p-52);
}

TEST(test_what_is_not_finite_shows) {
    assert_true(isinf(SUM(1, INFINITY, 2)));
    assert_true(isnan(SUM(1, INFINITY, -INFINITY)));
    assert_true(isnan(SUM(NAN, 1)));
    assert_true(isnan(SUM(0x1p400, 1)));                             /* outside the limbs: NaN, not a wrong number */
    assert_true(isnan(SUM(0x1p-400, 1)));
}

enum { N = 10000 };
static float number(int i) { return (float)ldexp(rng_normal(3, 1, (uint64_t)i), i % 60 - 30) * (i % 2 ? 1 : -1); }

/* The sum over n_parts parts, from the end to the start; the parts' numbers are added as ranks add them. */
static double in_parts(int n_parts) {
    double all[EXACT_NUMBERS] = {0};
    for (int p = n_parts - 1; p >= 0; p--) {
        struct exact part = {.n_added = 0};
        double numbers[EXACT_NUMBERS];
        for (int i = N - 1; i >= 0; i--)
            if (i % n_parts == p) exact_add(&part, number(i));
        exact_numbers(&part, numbers);
        for (int k = 0; k < EXACT_NUMBERS; k++) all[k] += numbers[k];
    }
    return exact_value(all);
}

TEST(test_no_order_changes_a_bit) {
    double whole = in_parts(1), rounded = 0;
    for (int i = 0; i < N; i++) rounded += number(i);
    assert_true(rounded != whole);                                   /* otherwise the test proves nothing */
    assert_close(rounded, whole, 1e-9 * fabs(whole));
    for (int n = 2; n < 12; n++) assert_true(in_parts(n) == whole);
}

TEST(test_threads_change_no_bit_of_squares) {
    float x[N];
    double numbers[2][EXACT_NUMBERS];
    int threads = omp_get_max_threads();
    for (int i = 0; i < N; i++) x[i] = number(i);
    for (int t = 0; t < 2; t++) {
        struct exact sum = {.n_added = 0};
        omp_set_num_threads(1 + 2 * t);
        exact_add_squares(&sum, x, N);
        exact_numbers(&sum, numbers[t]);
    }
    omp_set_num_threads(threads);
    long double expected = 0;
    for (int i = 0; i < N; i++) expected += (long double)x[i] * (long double)x[i];
    assert_true(exact_value(numbers[0]) == exact_value(numbers[1]));
    assert_close(exact_value(numbers[0]), (double)expected, 1e-15 * (double)expected);
}

/* ---- the area under a curve ---- */
/* The reference: loops over all pairs of a click and a non-click. */
static double by_pairs(const struct score *s, int n) {
    double sum = 0, pairs = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (s[i].label <= s[j].label) continue;
            pairs++;
            sum += s[i].score > s[j].score ? 1 : s[i].score == s[j].score ? 0.5 : 0;
        }
    return sum / pairs;
}

/* Scores have only ten values, so there are many ties. */
TEST(test_auc_is_the_share_of_pairs_in_order) {
    enum { N_SCORES = 300 };
    struct score s[N_SCORES];
    for (int i = 0; i < N_SCORES; i++) {
        double u = rng_uniform(1, 2, (uint64_t)i);
        s[i] = (struct score){floor(10 * u), rng_uniform(1, 3, (uint64_t)i) < 0.2 + 0.6 * u};
    }
    double expected = by_pairs(s, N_SCORES);
    assert_close(auc_of(s, N_SCORES), expected, 1e-12);
    assert_true(expected > 0.6 && expected < 0.9);
}

TEST(test_auc_of_sorted_equal_and_impossible_scores) {
    struct score best[] = {{3, 1}, {1, 0}, {2, 0}}, worst[] = {{0, 1}, {1, 0}}, same[] = {{5, 1}, {5, 0}, {5, 0}};
    struct score clicks[] = {{1, 1}, {2, 1}}, none[] = {{1, 0}}, wrong[] = {{NAN, 1}, {1, 0}};
    assert_close(auc_of(best, 3), 1, 0);
    assert_close(auc_of(worst, 2), 0, 0);
    assert_close(auc_of(same, 3), 0.5, 0);
    assert_true(isnan(auc_of(clicks, 2)) && isnan(auc_of(none, 1)));
    assert_true(isnan(auc_of(wrong, 2)) && isnan(auc_of(NULL, 0)));
}

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

/* The tolerances below are five standard deviations of the statistic, for N_RNG independent draws. */
enum { N_RNG = 200000 };

TEST(test_uniform_has_mean_variance_and_no_correlation) {
    double sum = 0, squares = 0, lagged = 0, before = 0;
    for (int i = 0; i < N_RNG; i++) {
        double u = rng_uniform(42, 7, (uint64_t)i) - 0.5;
        assert_true(u > -0.5 && u < 0.5);
        sum += u, squares += u * u, lagged += u * before;
        before = u;
    }
    assert_close(sum / N_RNG, 0, 5 * sqrt(1.0 / 12 / N_RNG));
    assert_close(squares / N_RNG, 1.0 / 12, 5 * sqrt(1.0 / 180 / N_RNG)); /* var(u^2) = 1/80 - 1/144 = 1/180 */
    assert_close(lagged / N_RNG, 0, 5 * (1.0 / 12) / sqrt(N_RNG));
}

TEST(test_normal_has_the_moments_of_a_normal) {
    double moment[5] = {0};
    for (int i = 0; i < N_RNG; i++) {
        double x = rng_normal(42, 7, (uint64_t)i);
        assert_true(isfinite(x));
        for (int k = 1; k <= 4; k++) moment[k] += pow(x, k) / N_RNG;
    }
    /* var(x^k) = E x^2k - (E x^k)^2 = 1, 2, 15, 96 */
    assert_close(moment[1], 0, 5 * sqrt(1.0 / N_RNG));
    assert_close(moment[2], 1, 5 * sqrt(2.0 / N_RNG));
    assert_close(moment[3], 0, 5 * sqrt(15.0 / N_RNG));
    assert_close(moment[4], 3, 5 * sqrt(96.0 / N_RNG));
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

TESTS(unit_test(test_one_number_is_its_own_sum), unit_test(test_nothing_is_lost), unit_test(test_it_is_rounded_once),
      unit_test(test_what_is_not_finite_shows), unit_test(test_no_order_changes_a_bit),
      unit_test(test_threads_change_no_bit_of_squares), unit_test(test_auc_is_the_share_of_pairs_in_order),
      unit_test(test_auc_of_sorted_equal_and_impossible_scores), unit_test(test_philox_matches_the_published_vectors),
      unit_test(test_stream_is_fnv_1a), unit_test(test_numbers_never_change),
      unit_test(test_key_depends_on_each_argument), unit_test(test_uniform_has_mean_variance_and_no_correlation),
      unit_test(test_normal_has_the_moments_of_a_normal), unit_test(test_elements_beyond_32_bits_are_distinct),
      unit_test(test_permute_is_a_bijection), unit_test(test_permute_reaches_the_largest_domains),
      unit_test(test_permute_is_fair), unit_test(test_permute_leaves_little_in_place))
