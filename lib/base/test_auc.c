/* ranks: 1 */
#include "lib/base/auc.h"
#include "lib/base/rng.h"
#include "tests/test.h"

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
    enum { N = 300 };
    struct score s[N];
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(1, 2, (uint64_t)i);
        s[i] = (struct score){floor(10 * u), rng_uniform(1, 3, (uint64_t)i) < 0.2 + 0.6 * u};
    }
    double expected = by_pairs(s, N);
    assert_close(auc_of(s, N), expected, 1e-12);
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

TESTS(unit_test(test_auc_is_the_share_of_pairs_in_order), unit_test(test_auc_of_sorted_equal_and_impossible_scores))
