/* ranks: 1  device: cpu */
#include "lib/base/rng.h"
#include "lib/device/piece.h"
#include "lib/device/tensor.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* (B 2, H 2 of 4 from 2, D 3): the shard of the second of two tp ranks. */
static const struct shape heads = {3, {{.tag = 'B', .n = 2, .first = 0, .global = 2},
                                       {.tag = 'H', .n = 2, .first = 2, .global = 4},
                                       {.tag = 'D', .n = 3, .first = 0, .global = 3}}};

TEST(test_counts_of_shard_and_whole) {
    assert_int_equal(shape_n(&heads), 12);
    assert_int_equal(shape_global_n(&heads), 24);
    struct shape scalar = {0};
    assert_int_equal(shape_n(&scalar), 1);
    assert_int_equal(shape_global_index(&scalar, 0), 0);
    struct type type = {BF16, heads};
    assert_int_equal(type_n(&type), 12);
    assert_int_equal(type_bytes(&type), 24);
}

TEST(test_counts_beyond_32_bits) {
    struct shape wide = {2, {axis_whole('T', 100000), axis_whole('V', 100000)}};
    assert_true(shape_n(&wide) == INT64_C(10000000000));
    assert_true(shape_global_index(&wide, INT64_C(9999999999)) == INT64_C(9999999999));
}

TEST(test_global_index_of_a_sharded_axis) {
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 2; h++)
            for (int64_t d = 0; d < 3; d++)
                assert_int_equal(shape_global_index(&heads, (b * 2 + h) * 3 + d), (b * 4 + h + 2) * 3 + d);
}

/* The shards of all ranks contain every element of the whole tensor once; padding has no index. */
TEST(test_shards_cover_the_whole_once_without_padding) {
    enum { V = 10, C = 3, SHARDS = 4, PER_SHARD = 3 }; /* 4 x 3 = 12 rows: two are padding */
    int times[V * C] = {0}, padding = 0;
    for (int64_t rank = 0; rank < SHARDS; rank++) {
        struct shape shard = {2, {{.tag = 'V', .n = PER_SHARD, .first = rank * PER_SHARD, .global = V},
                                  axis_whole('C', C)}};
        assert_int_equal(shape_global_n(&shard), V * C);
        for (int64_t i = 0; i < shape_n(&shard); i++) {
            int64_t index = shape_global_index(&shard, i);
            if (index < 0) padding++;
            else times[index]++;
        }
    }
    for (int i = 0; i < V * C; i++) assert_int_equal(times[i], 1);
    assert_int_equal(padding, 2 * C);
}

/* Zig-zag: each place is on one rank, in rising order, and all ranks have as many pairs (query, key <= query). */
static void check_zigzag(int64_t T, int64_t parts) {
    int times[64] = {0};
    int64_t pairs = -1;
    for (int64_t part = 0; part < parts; part++) {
        struct axis a = axis_zigzag('T', T, parts, part);
        int64_t mine = 0, last = -1;
        assert_int_equal(a.n, T / parts);
        for (int64_t i = 0; i < a.n; i++) {
            assert_true(axis_global(&a, i) > last);
            last = axis_global(&a, i);
            times[last]++;
            mine += last + 1;
        }
        assert_true(pairs < 0 || pairs == mine);
        pairs = mine;
    }
    for (int64_t t = 0; t < T; t++) assert_int_equal(times[t], 1);
}
TEST(test_zigzag_covers_all_places_and_halves_causal_work) {
    for (int64_t parts = 1; parts <= 8; parts *= 2) check_zigzag(64, parts);
}

/* axis_part of a zig-zag axis has the places of the elements that it takes, in one run or across the turn. */
TEST(test_part_of_an_axis_names_the_same_places) {
    for (int64_t part = 0; part < 3; part++) {
        struct axis held = axis_zigzag('T', 36, 3, part), whole = axis_whole('T', 12);
        for (int64_t parts = 1; parts <= 12; parts++)
            for (int64_t k = 0; 12 % parts == 0 && k < parts; k++) {
                struct axis a = axis_part(&held, parts, k), b = axis_part(&whole, parts, k);
                for (int64_t i = 0; i < a.n; i++) assert_int_equal(axis_global(&a, i), axis_global(&held, k * a.n + i));
                for (int64_t i = 0; i < b.n; i++) assert_int_equal(axis_global(&b, i), k * b.n + i);
                assert_int_equal(a.n * parts, held.n);
            }
    }
}

TEST(test_axis_by_tag) {
    assert_ptr_equal(shape_axis(&heads, 'H'), &heads.axis[1]);
    assert_null(shape_axis(&heads, 'T'));
    assert_true(axis_is_sharded(&heads.axis[1]));
    assert_false(axis_is_sharded(&heads.axis[0]));
}

TEST(test_same_compares_every_field) {
    struct shape other = heads;
    other.axis[4] = axis_whole('X', 9); /* beyond n_axes: does not count */
    assert_true(shape_same(&heads, &other));
    other = heads, other.axis[1].first = 0;
    assert_false(shape_same(&heads, &other));
    other = heads, other.axis[1].n = 1;
    assert_false(shape_same(&heads, &other));
    other = heads, other.axis[1].global = 8;
    assert_false(shape_same(&heads, &other));
    other = heads, other.axis[0].tag = 'T';
    assert_false(shape_same(&heads, &other));
    other = heads, other.n_axes = 2;
    assert_false(shape_same(&heads, &other));
}

TEST(test_print_shows_shards_and_obeys_its_size) {
    char text[64];
    shape_print(&heads, text, sizeof text);
    assert_string_equal(text, "(B 2, H 2/4@2, D 3)");
    struct shape scalar = {0};
    shape_print(&scalar, text, sizeof text);
    assert_string_equal(text, "()");
    struct shape by_length = {2, {axis_whole('B', 2), axis_whole('3', 3)}};
    shape_print(&by_length, text, sizeof text);
    assert_string_equal(text, "(B 2, 3)");
    memset(text, 'x', sizeof text);
    shape_print(&heads, text, 8);
    assert_string_equal(text, "(B 2, H");
    assert_int_equal(text[8], 'x');
    struct shape widest = {MAX_AXES, {{0}}};
    for (int a = 0; a < MAX_AXES; a++) widest.axis[a] = (struct axis){.tag = 'V', .n = INT64_MIN, .first = INT64_MIN,
                                                                      .global = INT64_MIN + 1};
    char wide[512];
    shape_print(&widest, wide, sizeof wide);
    assert_int_equal(wide[strlen(wide) - 1], ')');
}

/* The elements that two pieces share, compared with a test of every element: random boxes and runs of random tensors,
 * also with padding. */

static uint64_t drawn;
static int64_t draw(int64_t n) {
    return n > 0 ? (int64_t)(rng_uniform(5, rng_stream("piece"), drawn++) * (double)n) : 0;
}

static struct shape random_global(void) {
    struct shape s = {.n_axes = (int)draw(5)};
    for (int i = 0; i < s.n_axes; i++) s.axis[i] = axis_whole("BTHDV"[i], 1 + draw(6));
    return s;
}

/* Cut some axes; a cut may reach beyond the axis's end. */
static struct piece random_piece(const struct shape *global) {
    struct piece p = {.box = *global};
    for (int i = 0; i < global->n_axes; i++) {
        struct axis *a = &p.box.axis[i];
        if (draw(2)) continue;
        a->first = draw(a->global + 2);
        a->n = 1 + draw(a->global);
    }
    int64_t n = shape_n(&p.box);
    p.first = draw(2) ? draw(n) : 0;
    p.n = draw(2) ? draw(n - p.first + 1) : n - p.first;
    return p;
}

/* Copy the marks, which are indices in the global tensor, from the run of `from` to the run of `to`. */
struct copied { const struct piece *from; int64_t *to; int calls; };
static enum status copy(void *self, int64_t to_at, int64_t from_at, int64_t n) {
    struct copied *c = self;
    for (int64_t i = 0; i < n; i++) {
        assert_true(from_at >= 0 && from_at + i < c->from->n);
        assert_true(c->to[to_at + i] == -1);                         /* once */
        c->to[to_at + i] = shape_global_index(&c->from->box, c->from->first + from_at + i);
    }
    c->calls++;
    return OK;
}

static bool holds(const struct piece *p, int64_t global) {
    for (int64_t i = 0; i < p->n; i++)
        if (shape_global_index(&p->box, p->first + i) == global) return true;
    return false;
}

static void check(const struct piece *to, const struct piece *from) {
    int64_t *marks = malloc((size_t)(to->n + 1) * sizeof *marks), real = 0;
    for (int64_t i = 0; i < to->n; i++) marks[i] = -1;
    struct copied c = {from, marks, 0};
    assert_ok(piece_common(to, from, copy, &c));
    for (int64_t i = 0; i < to->n; i++) {
        int64_t global = shape_global_index(&to->box, to->first + i);
        real += global >= 0;
        assert_true(marks[i] == (global >= 0 && holds(from, global) ? global : -1));
    }
    assert_true(piece_real_n(to) == real);
    free(marks);
}

TEST(test_common_elements_are_those_of_both) {
    for (int i = 0; i < 3000; i++) {
        struct shape global = random_global();
        struct piece a = random_piece(&global), b = random_piece(&global);
        check(&a, &b);
    }
}

TEST(test_equal_pieces_are_one_copy) {
    struct piece p = {{3, {axis_whole('3', 3), {.tag = 'H', .n = 4, .first = 4, .global = 16}, axis_whole('C', 32)}},
                      100, 200};
    int64_t marks[200];
    memset(marks, 0xff, sizeof marks);
    struct copied c = {&p, marks, 0};
    assert_ok(piece_common(&p, &p, copy, &c));
    assert_int_equal(c.calls, 1);
}

TEST(test_pieces_of_different_tensors_are_refused) {
    struct piece a = {{1, {axis_whole('C', 4)}}, 0, 4}, b = {{1, {axis_whole('C', 5)}}, 0, 5};
    assert_fails(piece_common(&a, &b, copy, NULL), E_INTERNAL, "different tensors");
}

TESTS(unit_test(test_counts_of_shard_and_whole), unit_test(test_counts_beyond_32_bits),
      unit_test(test_global_index_of_a_sharded_axis), unit_test(test_shards_cover_the_whole_once_without_padding),
      unit_test(test_zigzag_covers_all_places_and_halves_causal_work),
      unit_test(test_part_of_an_axis_names_the_same_places), unit_test(test_axis_by_tag),
      unit_test(test_same_compares_every_field), unit_test(test_print_shows_shards_and_obeys_its_size),
      unit_test(test_common_elements_are_those_of_both), unit_test(test_equal_pieces_are_one_copy),
      unit_test(test_pieces_of_different_tensors_are_refused))
