/* ranks: 1  device: cpu
 *
 * Loads by hand; the rule in small cases; and the best of all placements of up to seven tables on three ranks: the rule
 * is never worse than its bound, 4/3 - 1/(3n) times the best. */
#include "lessons/20-sparse-models/placement/placement.h"
#include "lib/base/rng.h"
#include "tests/test.h"
#include <stdbool.h>
#include <string.h>

static const struct table FOUR[] = {{10, 6}, {100, 1}, {7, 4}, {5, 3}};

TEST(test_placement_loads_add_up) {
    static const int owner[] = {1, 0, BY_ROW, 1};
    double busiest = placement_busiest(FOUR, 4, 4, owner);
    if (busiest != 10) fail_msg("6 and 3, and a quarter of 4, are 10 lookups, and you say %g", busiest);
    int64_t largest = placement_largest(FOUR, 4, 4, owner);
    if (largest != 102)
        fail_msg("100 rows, and a quarter of 7, which is 2, are 102 rows, and you say %d", (int)largest);
    assert_close(placement_busiest(FOUR, 4, 2, (int[]){BY_ROW, BY_ROW, BY_ROW, BY_ROW}), 7, 1e-12);
}

static void expect(const struct table *t, int n_tables, int n, int64_t most_rows, const int *right, const char *why) {
    int owner[MOST_TABLES];
    memset(owner, 0x7f, sizeof owner);
    assert_ok(placement_choose(t, n_tables, n, most_rows, owner));
    for (int f = 0; f < n_tables; f++)
        if (owner[f] != right[f])
            fail_msg("table %d of %d on %d ranks: %d is right (-1: by row), and you say %d; %s", f, n_tables, n,
                     right[f], owner[f], why);
}

/* In the tables' own order the first table of 6 lookups would be on rank 1, and the second on rank 0. */
TEST(test_placement_takes_the_hottest_first) {
    static const struct table t[] = {{1, 1}, {1, 6}, {1, 6}, {1, 2}};
    expect(t, 4, 2, 1000, (int[]){1, 0, 1, 0}, "the two of 6 lookups come first, then 2, then 1");
}

TEST(test_placement_equals_go_by_number) {
    static const struct table t[] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}};
    expect(t, 6, 3, 1000, (int[]){0, 1, 2, 0, 1, 2}, "of equals the smaller number: or ranks do not agree");
}

TEST(test_placement_divides_what_is_too_hot) {
    static const struct table t[] = {{8, 2}, {8, 21}, {8, 1}, {8, 4}}, even[] = {{4, 5}, {4, 5}};
    expect(t, 4, 4, 1000, (int[]){1, BY_ROW, 2, 0}, "28 lookups on 4 ranks are 7 each, and no rank should have 21");
    expect(even, 2, 2, 1000, (int[]){0, 1}, "a table of exactly the share is not divided");
}

TEST(test_placement_keeps_within_memory) {
    static const struct table t[] = {{60, 5}, {60, 4}, {50, 3}, {10, 2}}, large[] = {{60, 2}, {90, 1}, {60, 2}};
    expect(t, 4, 2, 130, (int[]){0, 1, 1, 0}, "a rank has room for 130 rows");
    expect(t, 4, 2, 100, (int[]){0, 1, BY_ROW, 1}, "50 rows fit on no rank with 60, and 25 do");
    assert_int_equal(placement_largest(large, 3, 2, (int[]){0, BY_ROW, 1}), 105);
    expect(large, 3, 2, 105, (int[]){0, BY_ROW, 1}, "60 and half of 90 are 105");
    int owner[3];
    assert_fails(placement_choose(large, 3, 2, 104, owner), E_CONFIG, "table 1");
}

/* ---- against the best ---- */
static double best_of_all(const struct table *t, int n_tables, int n) {
    double best = INFINITY;
    int owner[7] = {0};
    for (;;) {
        double busiest = 0, lookups[3] = {0};
        for (int f = 0; f < n_tables; f++) lookups[owner[f]] += t[f].lookups;
        for (int r = 0; r < n; r++) busiest = fmax(busiest, lookups[r]);
        best = fmin(best, busiest);
        int f = 0;
        while (f < n_tables && ++owner[f] == n) owner[f++] = 0;
        if (f == n_tables) return best;
    }
}

TEST(test_placement_is_near_the_best) {
    for (int trial = 0; trial < 60; trial++) {
        struct table t[7];
        int owner[7], n = 2 + trial % 2;
        for (int f = 0; f < 7; f++)
            t[f] = (struct table){1, 1 + floor(9 * rng_uniform(7, (uint64_t)trial, (uint64_t)f))};
        double best = best_of_all(t, 7, n), bound = (4. / 3 - 1. / (3 * n)) * best, found = 0;
        bool divided = false;
        assert_ok(placement_choose(t, 7, n, 1000, owner));
        for (int r = 0; r < n; r++) {
            double lookups = 0;
            for (int f = 0; f < 7; f++) lookups += owner[f] == r ? t[f].lookups : 0, divided |= owner[f] == BY_ROW;
            found = fmax(found, lookups);
        }
        if (!divided && found > bound + 1e-9)
            fail_msg("seven tables on %d ranks: %g lookups on the busiest, and the best is %g", n, found, best);
    }
}

TESTS(unit_test(test_placement_loads_add_up), unit_test(test_placement_takes_the_hottest_first),
      unit_test(test_placement_equals_go_by_number), unit_test(test_placement_divides_what_is_too_hot),
      unit_test(test_placement_keeps_within_memory), unit_test(test_placement_is_near_the_best))
