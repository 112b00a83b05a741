/* ranks: 1  device: cpu */
/* The walls of made-up cells, as JSON and in the page. */
#include "tests/test.h"

#include "driver/plan/budget_walls.h"
#include <inttypes.h>

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

TESTS(unit_test(test_cells_meet_their_walls), unit_test(test_reach_is_the_row_s),
      unit_test(test_the_picture_says_what_the_json_says), unit_test(test_sizes_are_those_in_the_scale))
