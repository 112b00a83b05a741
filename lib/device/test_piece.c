/* ranks: 1  device: cpu */
/* The elements that two pieces share, compared with a test of every element: random boxes and runs of random tensors,
 * also with padding. */
#include "lib/base/rng.h"
#include "lib/device/piece.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

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

TESTS(unit_test(test_common_elements_are_those_of_both), unit_test(test_equal_pieces_are_one_copy),
      unit_test(test_pieces_of_different_tensors_are_refused))
