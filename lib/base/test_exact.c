/* ranks: 1  device: cpu */
#include "lib/base/auc.h"
#include "lib/base/exact.h"
#include "lib/base/rng.h"
#include "tests/test.h"
#include <float.h>
#include <math.h>
#include <omp.h>

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

TESTS(unit_test(test_one_number_is_its_own_sum), unit_test(test_nothing_is_lost), unit_test(test_it_is_rounded_once),
      unit_test(test_what_is_not_finite_shows), unit_test(test_no_order_changes_a_bit),
      unit_test(test_threads_change_no_bit_of_squares), unit_test(test_auc_is_the_share_of_pairs_in_order),
      unit_test(test_auc_of_sorted_equal_and_impossible_scores))
