/* ranks: 1  device: cpu */
#include "driver/plan/budget_page.h"
#include "driver/plan/budget_walls.h"
#include "planner/failure.h"
#include "planner/why.h"
#include "tests/test.h"
#include <inttypes.h>
#include <math.h>

/* The numbers of a budget's page, from made-up lines. */


static json_t *at(json_t *o, size_t i) { return json_array_get(o, i); }
static double number_at(json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* 8, 16, ... ranks. A rank fails once in a million seconds, a save takes 5 s. The last line does not fit. */
enum { N = 4 };
static void make_curve(struct budget_curve *c, bool searched) {
    for (int i = 0; i < N; i++) {
        struct budget_line l = {.ranks = 8 << i, .batch = 64, .fits = i < N - 1, .searched = searched,
                                .mfu = 0.5 - 0.1 * i};
        l.best.price.step_s = 4, l.best.price.phase_s[PRICE_PRODUCTS] = 3, l.best.price.phase_s[PRICE_BUBBLE] = 1;
        l.cost.slowest = 1.25, l.cost.goodput = 0.75, l.cost.mtbf_s = 1e6 / (double)l.ranks;
        l.cost.young_s = failure_interval_young(5, l.cost.mtbf_s);
        l.cost.daly_s = failure_interval_daly(5, l.cost.mtbf_s);
        budget_curve_add(c, &l);
    }
}

/* A line has parts, which the page draws as bars, if it fits and was searched. */
TEST(test_shares_are_of_lines_that_fit) {
    struct budget_curve curves[2] = {{0}};
    const struct budget_page page = {NULL, NULL, curves, 5, 600};
    make_curve(&curves[0], true);
    make_curve(&curves[1], false);                                   /* a given mfu has no phases */
    json_t *all = budget_curves_json(&page);
    for (size_t i = 0; i < N; i++) {
        json_t *line = at(at(all, 0), i), *parts = json_object_get(line, "parts_s");
        assert_int_equal((int64_t)number_at(line, "ranks"), 8 << i);
        assert_int_equal((int64_t)number_at(line, "global_batch"), 64);
        assert_true(json_is_true(json_object_get(line, "fits")) == (i < N - 1));
        assert_null(json_object_get(at(at(all, 1), i), "parts_s"));
        if (i == N - 1) {
            assert_null(parts);
            continue;
        }
        assert_close(number_at(line, "step_s"), 4, 1e-12);
        assert_close(json_number_value(at(parts, PART_PRODUCTS)), 3, 1e-12);
        assert_close(json_number_value(at(parts, PART_BUBBLE)), 1, 1e-12);
    }
    json_decref(all);
    for (int i = 0; i < 2; i++) budget_curve_fini(&curves[i]);
}

TEST(test_mfu_has_two_dots_a_line) {
    struct budget_curve curves[2] = {{0}};
    const struct budget_page page = {NULL, NULL, curves, 5, 600};
    make_curve(&curves[1], false);
    assert_close(budget_mfu_left(&curves[1].line[0]), 0.3, 1e-12);
    json_t *all = budget_curves_json(&page), *first = at(at(all, 1), 0);
    assert_int_equal(json_array_size(at(all, 0)), 0);
    assert_int_equal(json_array_size(at(all, 1)), N);
    assert_close(number_at(first, "mfu"), 0.5, 1e-12);
    assert_close(number_at(first, "mfu_left"), 0.3, 1e-12);
    assert_close(number_at(at(at(all, 1), 1), "mfu_left"), 0.24, 1e-12);
    assert_null(json_object_get(at(at(all, 1), N - 1), "mfu"));
    json_decref(all);
    budget_curve_fini(&curves[1]);
}

/* Each line has marks at Young's and Daly's intervals, with failure_goodput of these. */
TEST(test_goodput_marks_both_intervals) {
    struct budget_curve curves[2] = {{0}};
    const struct budget_page page = {NULL, NULL, curves, 5, 600};
    make_curve(&curves[0], true);
    json_t *all = budget_goodput_json(&page);
    assert_int_equal(json_array_size(all), N);
    double from = curves[0].line[N - 1].cost.young_s / 10, to = curves[0].line[0].cost.young_s * 10;
    for (size_t i = 0; i < N; i++) {
        const struct budget *b = &curves[0].line[i].cost;
        json_t *daly = json_object_get(at(all, i), "daly"), *line = json_object_get(at(all, i), "line");
        assert_int_equal((int64_t)number_at(at(all, i), "ranks"), 8 << i);
        assert_close(json_number_value(at(daly, 0)), b->daly_s, 1e-9);
        assert_close(json_number_value(at(daly, 1)), 1 - failure_goodput(b->daly_s, 5, b->mtbf_s, 600), 1e-12);
        assert_close(json_number_value(at(json_object_get(at(all, i), "young"), 0)), b->young_s, 1e-9);
        assert_int_equal(json_array_size(line), 81);
        assert_close(json_number_value(at(at(line, 0), 0)), from, 1e-9 * from);
        assert_close(json_number_value(at(at(line, 80), 0)), to, 1e-9 * to);
        assert_close(json_number_value(at(at(line, 80), 1)), 1 - failure_goodput(to, 5, b->mtbf_s, 600), 1e-9);
    }
    json_decref(all);
    for (int i = 0; i < N; i++) curves[0].line[i].cost.young_s = curves[0].line[i].cost.daly_s = NAN;
    all = budget_goodput_json(&page);                                /* no rank ever fails */
    assert_int_equal(json_array_size(all), 0);
    json_decref(all);
    budget_curve_fini(&curves[0]);
}

/* ---- walls of made-up cells, as JSON and in the page ---- */

/* A step of 1 s: the part `products` is products at a reach of 0.7, the part `dp` is sums over replicas. */
static struct walls_cell cell_of(double products, double dp) {
    return (struct walls_cell){.of = {.fits = true, .step_s = 1, .mfu = 0.7 * products, .slowest = 1, .goodput = 0.5,
                                      .phase_s = {[PRICE_PRODUCTS] = products, [PRICE_DP] = dp,
                                                  [PRICE_BUBBLE] = 1 - products - dp}},
                               .layout = "dp8"};
}

/* The first row: memory, compute, communication, efficiency, and a cell without a possible layout. The other rows fit
 * nowhere. */
static void make_walls(struct walls *w) {
    assert_ok(walls_choose_sizes(1, INT64_MAX, w));
    struct walls_cell *row = w->cell[0];
    row[0].least_gib = 344;
    row[1] = cell_of(0.95, 0), row[2] = cell_of(0.5, 0.4), row[3] = cell_of(0.5, 0.3);
    for (int i = 0; i < N_WALL_MODELS; i++) walls_judge_row(w->cell[i], w->n);
}

TEST(test_cells_meet_their_walls) {
    static struct walls w;
    static const enum wall EXPECTED[] = {WALL_MEMORY, WALL_COMPUTE, WALL_COMMUNICATION, WALL_EFFICIENCY, WALL_MEMORY};
    make_walls(&w);
    for (int i = 0; i < N_WALL_SIZES; i++) assert_int_equal(w.cell[0][i].wall, EXPECTED[i]);
    assert_close(w.cell[0][2].exchanges, 0.4, 1e-12);
    assert_close(w.cell[0][1].mfu_left, 0.5 * 0.7 * 0.95, 1e-12);
    assert_int_equal(w.cell[0][3].loss, LOSS_FAILURES);              /* failures: half of the time; bubble: a fifth */
}

/* The reach is that of the row's widest products, so a step that has only narrow products is no compute wall. */
TEST(test_reach_is_the_row_s) {
    struct walls_cell row[2] = {cell_of(0.95, 0), cell_of(0.95, 0)};
    row[1].of.mfu /= 2;
    walls_judge_row(row, 2);
    assert_close(row[1].of.reach, 0.7, 1e-12);
    assert_int_equal(row[0].wall, WALL_COMPUTE);
    assert_int_equal(row[1].wall, WALL_EFFICIENCY);
    walls_judge_row(&row[1], 1);
    assert_int_equal(row[1].wall, WALL_COMPUTE);
}

TEST(test_the_picture_says_what_the_json_says) {
    static struct walls w;
    static const char *const WORDS[N_WALL_SIZES][2] = {
        {"memory", "344 GiB at least"}, {"compute, mfu 33%", "95% of reach"},
        {"communication, mfu 18%", "exchanges 40%"}, {"efficiency, mfu 18%", "failures 50%"},
        {"memory", "none can be"}};
    make_walls(&w);
    json_t *page = walls_page_json(&(struct cluster){.name = "here"}, &w), *walls = json_object_get(page, "walls");
    json_t *cells = json_object_get(page, "cells"), *printed = walls_json(&w);
    assert_true(json_equal(walls, json_object_get(printed, "walls")));
    assert_int_equal(json_array_size(walls), N_WALL_MODELS * N_WALL_SIZES);
    assert_int_equal(json_array_size(cells), N_WALL_MODELS * N_WALL_SIZES);
    for (size_t i = 0; i < N_WALL_SIZES; i++) {
        json_t *c = json_array_get(cells, i), *x = json_array_get(walls, i);
        assert_int_equal(json_integer_value(json_object_get(x, "ranks")), walls_sizes[i]);
        assert_int_equal(json_integer_value(json_object_get(c, "row")), 0);
        assert_int_equal(json_integer_value(json_object_get(c, "column")), i);
        assert_int_equal(json_integer_value(json_object_get(c, "series")), w.cell[0][i].wall);
        assert_string_equal(json_string_value(json_object_get(x, "wall")), wall_name(w.cell[0][i].wall));
        assert_string_equal(json_string_value(json_object_get(c, "first")), WORDS[i][0]);
        assert_string_equal(json_string_value(json_object_get(c, "second")), WORDS[i][1]);
    }
    json_decref(printed);
    json_decref(page);
}

TEST(test_sizes_are_those_in_the_scale) {
    static struct walls w;
    assert_ok(walls_choose_sizes(64, 4096, &w));
    assert_int_equal(w.first, 1);
    assert_int_equal(w.n, 3);
    assert_fails(walls_choose_sizes(9, 63, &w), E_USAGE, "9:63", "16384");
}

TESTS(unit_test(test_shares_are_of_lines_that_fit), unit_test(test_mfu_has_two_dots_a_line),
      unit_test(test_goodput_marks_both_intervals), unit_test(test_cells_meet_their_walls),
      unit_test(test_reach_is_the_row_s), unit_test(test_the_picture_says_what_the_json_says),
      unit_test(test_sizes_are_those_in_the_scale))
