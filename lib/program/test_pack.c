/* ranks: 1  device: cpu */
#include "lib/base/rng.h"
#include "lib/program/lower.h"
#include "tests/test.h"
#include <stdlib.h>

enum { MAX_INTERVALS = 60, TRIALS = 300 };

static uint64_t draw;   /* how many numbers have been drawn */
static int64_t random_below(int64_t n) { return (int64_t)(rng_uniform(7, 0, draw++) * (double)n); }

/* Lengths and sizes of all scales: a moment and a whole schedule, one byte and many pages. */
static void make_random(struct interval *x, int n) {
    for (int i = 0; i < n; i++) {
        int from = (int)random_below(40), length = (int)random_below(i % 3 ? 5 : 40);
        x[i] = (struct interval){1 + random_below(i % 2 ? 100 : 10000), -1, from, from + length, i};
    }
}

static int64_t end_of(const struct interval *x) { return x->offset + x->bytes; }
static bool same_time(const struct interval *a, const struct interval *b) { return a->from <= b->to && b->from <= a->to; }
static bool same_bytes(const struct interval *a, const struct interval *b) {
    return a->offset < end_of(b) && b->offset < end_of(a);
}

static void test_intervals_of_one_time_never_share_a_byte(void **state) {
    (void)state;
    struct interval x[MAX_INTERVALS];
    int64_t floor;
    for (int trial = 0, n; trial < TRIALS; trial++) {
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        interval_pack(x, n, &floor);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++) assert_false(same_time(&x[i], &x[j]) && same_bytes(&x[i], &x[j]));
    }
}

static void test_extent_is_the_highest_end_and_offsets_are_aligned(void **state) {
    (void)state;
    struct interval x[MAX_INTERVALS];
    for (int trial = 0, n; trial < TRIALS; trial++) {
        int64_t floor, highest = 0;
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        int64_t extent = interval_pack(x, n, &floor);
        for (int i = 0; i < n; i++) {
            assert_true(x[i].offset >= 0 && x[i].offset % ARENA_ALIGN == 0);
            if (end_of(&x[i]) > highest) highest = end_of(&x[i]);
        }
        assert_int_equal(extent, highest);
    }
}

/* The floor by its definition, moment by moment; and no packing is below it. */
static void test_floor_is_the_most_bytes_alive_at_one_time(void **state) {
    (void)state;
    struct interval x[MAX_INTERVALS];
    for (int trial = 0, n; trial < TRIALS; trial++) {
        int64_t floor, most = 0;
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        int64_t extent = interval_pack(x, n, &floor);
        for (int moment = 0; moment < 80; moment++) {
            int64_t alive = 0;
            for (int i = 0; i < n; i++)
                if (x[i].from <= moment && moment <= x[i].to) alive += x[i].bytes;
            if (alive > most) most = alive;
        }
        assert_int_equal(floor, most);
        assert_true(extent >= floor);
    }
}

/* Colouring of intervals: in the order of their starts, first fit needs as many colours as overlap at once. */
static void test_intervals_of_one_size_reach_the_floor(void **state) {
    (void)state;
    struct interval x[MAX_INTERVALS];
    for (int trial = 0, n; trial < TRIALS; trial++) {
        int64_t floor;
        make_random(x, n = 1 + trial % MAX_INTERVALS);
        for (int i = 0; i < n; i++) x[i].bytes = 5 * ARENA_ALIGN;
        int64_t extent = interval_pack(x, n, &floor);
        assert_int_equal(extent, floor);
    }
}

static void test_every_interval_comes_back_once_and_unchanged(void **state) {
    (void)state;
    struct interval before[MAX_INTERVALS], x[MAX_INTERVALS];
    bool seen[MAX_INTERVALS] = {false};
    int64_t floor;
    make_random(before, MAX_INTERVALS);
    memcpy(x, before, sizeof x);
    interval_pack(x, MAX_INTERVALS, &floor);
    for (int i = 0; i < MAX_INTERVALS; i++) {
        const struct interval *was = &before[x[i].id];
        assert_true(x[i].bytes == was->bytes && x[i].from == was->from && x[i].to == was->to);
        assert_false(seen[x[i].id]);
        seen[x[i].id] = true;
    }
}

static void test_nothing_needs_nothing(void **state) {
    (void)state;
    int64_t floor = -1;
    struct interval none[1];
    assert_int_equal(interval_pack(none, 0, &floor), 0);
    assert_int_equal(floor, 0);
}

/* The small ones alone would lie at 0 and 64, and leave the big one no room below 128. */
static void test_big_intervals_choose_first(void **state) {
    (void)state;
    int64_t floor;
    struct interval x[] = {{64, 0, 0, 2, 0}, {64, 0, 2, 4, 1}, {128, 0, 3, 6, 2}};
    int64_t extent = interval_pack(x, 3, &floor);
    assert_int_equal(floor, 192);
    assert_int_equal(extent, 192);
}

/* Both ends of an interval are included: who dies at 3 and who is born at 3 are together at 3. */
static void test_ends_are_included(void **state) {
    (void)state;
    int64_t floor;
    struct interval touching[] = {{64, 0, 0, 3, 0}, {64, 0, 3, 5, 1}}, apart[] = {{64, 0, 0, 3, 0}, {64, 0, 4, 5, 1}};
    assert_int_equal(interval_pack(touching, 2, &floor), 128);
    assert_int_equal(interval_pack(apart, 2, &floor), 64);
}

TESTS(unit_test(test_intervals_of_one_time_never_share_a_byte),
      unit_test(test_extent_is_the_highest_end_and_offsets_are_aligned),
      unit_test(test_floor_is_the_most_bytes_alive_at_one_time), unit_test(test_intervals_of_one_size_reach_the_floor),
      unit_test(test_every_interval_comes_back_once_and_unchanged), unit_test(test_nothing_needs_nothing),
      unit_test(test_big_intervals_choose_first), unit_test(test_ends_are_included))
