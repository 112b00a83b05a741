/* ranks: 1  device: cpu */
#include "lib/base/rng.h"
#include "lib/program/lower.h"
#include "tests/test.h"
#include <stdlib.h>

enum { MAX_INTERVALS = 60, TRIALS = 300 };

static uint64_t draw;   /* the number of draws so far */
static int64_t random_below(int64_t n) { return (int64_t)(rng_uniform(7, 0, draw++) * (double)n); }

/* Random intervals of all scales: from one moment to the whole schedule, from one byte to many pages. */
static void make_random(struct interval *x, int n) {
    for (int i = 0; i < n; i++) {
        int from = (int)random_below(40), length = (int)random_below(i % 3 ? 5 : 40);
        x[i] = (struct interval){1 + random_below(i % 2 ? 100 : 10000), -1, from, from + length, i};
    }
}

static struct packing packed(struct interval *x, int n) {
    struct packing p;
    assert_ok(interval_pack(x, n, DEVICE_CPU, &p));
    return p;
}

static int64_t end_of(const struct interval *x) { return x->offset + x->bytes; }
static bool same_time(const struct interval *a, const struct interval *b) {
    return a->from <= b->to && b->from <= a->to;
}
static bool same_bytes(const struct interval *a, const struct interval *b) {
    return a->offset < end_of(b) && b->offset < end_of(a);
}

TEST(test_intervals_of_one_time_never_share_a_byte) {
    struct interval x[MAX_INTERVALS];
    for (int trial = 0, n; trial < TRIALS; trial++) {
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        packed(x, n);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++) assert_false(same_time(&x[i], &x[j]) && same_bytes(&x[i], &x[j]));
    }
}

TEST(test_extent_is_the_highest_end_and_offsets_are_aligned) {
    struct interval x[MAX_INTERVALS];
    for (int trial = 0, n; trial < TRIALS; trial++) {
        int64_t highest = 0;
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        struct packing p = packed(x, n);
        for (int i = 0; i < n; i++) {
            assert_true(x[i].offset >= 0 && x[i].offset % ARENA_ALIGN == 0);
            if (end_of(&x[i]) > highest) highest = end_of(&x[i]);
        }
        assert_int_equal(p.extent, highest);
    }
}

/* The floor must be the maximum over moments of the bytes alive, and no packing may be below it. */
TEST(test_floor_is_the_most_bytes_alive_at_one_time) {
    struct interval x[MAX_INTERVALS];
    for (int trial = 0, n; trial < TRIALS; trial++) {
        int64_t most = 0;
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        struct packing p = packed(x, n);
        for (int moment = 0; moment < 80; moment++) {
            int64_t alive = 0;
            for (int i = 0; i < n; i++)
                if (x[i].from <= moment && moment <= x[i].to) alive += x[i].bytes;
            if (alive > most) most = alive;
        }
        assert_int_equal(p.floor, most);
        assert_true(p.extent >= p.floor);
    }
}

/* Interval coloring: in the order of starts, first fit needs as many colors as intervals overlap at one time. */
TEST(test_intervals_of_one_size_reach_the_floor) {
    struct interval x[MAX_INTERVALS];
    for (int trial = 0, n; trial < TRIALS; trial++) {
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        for (int i = 0; i < n; i++) x[i].bytes = 5 * ARENA_ALIGN;
        struct packing p = packed(x, n);
        assert_int_equal(p.extent, p.floor);
    }
}

TEST(test_every_interval_comes_back_once_and_unchanged) {
    struct interval before[MAX_INTERVALS], x[MAX_INTERVALS];
    bool seen[MAX_INTERVALS] = {false};
    make_random(before, MAX_INTERVALS);
    memcpy(x, before, sizeof x);
    packed(x, MAX_INTERVALS);
    for (int i = 0; i < MAX_INTERVALS; i++) {
        const struct interval *was = &before[x[i].id];
        assert_true(x[i].bytes == was->bytes && x[i].from == was->from && x[i].to == was->to);
        assert_false(seen[x[i].id]);
        seen[x[i].id] = true;
    }
}

TEST(test_nothing_needs_nothing) {
    struct interval none[1];
    struct packing p = packed(none, 0);
    assert_true(p.extent == 0 && p.floor == 0);
}

/* If the small intervals came first, they would lie at 0 and 64, and the big one would have no room below 128. */
TEST(test_big_intervals_choose_first) {
    struct interval x[] = {{64, 0, 0, 2, 0}, {64, 0, 2, 4, 1}, {128, 0, 3, 6, 2}};
    struct packing p = packed(x, 3);
    assert_int_equal(p.floor, 192);
    assert_int_equal(p.extent, 192);
}

/* Both ends of an interval are included: a value that dies at 3 and one that is born at 3 are both alive at 3. */
TEST(test_ends_are_included) {
    struct interval touching[] = {{64, 0, 0, 3, 0}, {64, 0, 3, 5, 1}}, apart[] = {{64, 0, 0, 3, 0}, {64, 0, 4, 5, 1}};
    assert_int_equal(packed(touching, 2).extent, 128);
    assert_int_equal(packed(apart, 2).extent, 64);
}

/* ---- the rule, compared with its plain form: each interval against all that are placed before ---- */
static bool meets_an_earlier(const struct interval *x, int i, int64_t *end) {
    for (int j = 0; j < i; j++) {
        *end = arena_align(end_of(&x[j]));
        if (same_time(&x[i], &x[j]) && x[i].offset < *end && x[j].offset < end_of(&x[i])) return true;
    }
    return false;
}

TEST(test_offsets_are_those_of_first_fit) {
    struct interval x[MAX_INTERVALS], plain[MAX_INTERVALS];
    for (int trial = 0; trial < 10 * TRIALS; trial++) {
        int n = 1 + (int)random_below(MAX_INTERVALS);
        make_random(x, n);
        for (int i = 0; i < n && trial % 3; i++)                     /* three sizes, one of them 0 */
            x[i].bytes = (x[i].bytes % 3 + (trial % 3 == 1)) * 100;
        packed(x, n);
        memcpy(plain, x, sizeof x);
        for (int i = 0; i < n; i++) {
            int64_t end;
            for (plain[i].offset = 0; meets_an_earlier(plain, i, &end);) plain[i].offset = end;
            assert_int_equal(x[i].offset, plain[i].offset);
            assert_true(i == 0 || x[i - 1].bytes > x[i].bytes ||
                        (x[i - 1].bytes == x[i].bytes && x[i - 1].from <= x[i].from));
        }
    }
}

/* ---- the cost: a step may have 2^20 microbatches ---- */
/* The looks for n microbatches' frames, of which `alive` are in flight at one time (n: GPipe), of n_sizes sizes. */
static double looks(int n, int alive, int n_sizes) {
    struct interval *x = malloc((size_t)n * sizeof *x);
    for (int i = 0; i < n; i++)
        x[i] = (struct interval){ARENA_ALIGN * (1 + i % n_sizes), 0, 2 * i, 2 * (i + alive) - 1, i};
    struct packing p = packed(x, n);
    free(x);
    return (double)p.looks;
}

/* 16 times as many intervals may cost 16 log(16 n) / log(n) = 23.1 times as much; comparing all pairs, 256 times. */
TEST(test_cost_grows_with_n_log_n) {
    const int n = 512;
    assert_true(looks(16 * n, 1, 1) < 23.2 * looks(n, 1, 1));
    assert_true(looks(16 * n, 16 * n, 1) < 23.2 * looks(n, n, 1));
    assert_true(looks(16 * n, 8, 2) < 23.2 * looks(n, 8, 2));
}

TESTS(unit_test(test_offsets_are_those_of_first_fit), unit_test(test_cost_grows_with_n_log_n),
      unit_test(test_intervals_of_one_time_never_share_a_byte),
      unit_test(test_extent_is_the_highest_end_and_offsets_are_aligned),
      unit_test(test_floor_is_the_most_bytes_alive_at_one_time), unit_test(test_intervals_of_one_size_reach_the_floor),
      unit_test(test_every_interval_comes_back_once_and_unchanged), unit_test(test_nothing_needs_nothing),
      unit_test(test_big_intervals_choose_first), unit_test(test_ends_are_included))
