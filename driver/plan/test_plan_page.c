/* ranks: 1  device: cpu */
/* The page of a search: one dot per layout, with the search's numbers, and bounded memory for any number of layouts.
 * tests/plan.sh and tests/more/pages.sh make whole pages. */
#include "driver/plan/budget_page.h"
#include "driver/plan/budget_walls.h"
#include "driver/plan/plan_pipeline.h"
#include "driver/plan/plan_tables.h"
#include "driver/recipe.h"
#include "planner/failure.h"
#include "planner/why.h"
#include "tests/test.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0

static int count(const char *text, const char *words) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) n++;
    return n;
}

static struct plan small(void) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    snprintf(p.model, sizeof p.model, "small");
    p.layers = 8, p.hidden = 512, p.heads = 8, p.seq = 512, p.vocab = 4096, p.global_batch = 64;
    p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    return p;
}

/* A search in which some layouts do not fit. */
struct searched { struct plan plan; struct cluster cluster; struct search found; struct plan_dots dots; };
static struct plan_page page_of(struct searched *s) {
    assert_ok(cluster_read("dgx-a100", &s->cluster));
    s->plan = small();
    s->cluster.memory_bytes = (int64_t)(0.4 * GIB), s->cluster.reserve_bytes = 0;
    plan_dots_init(&s->dots);
    assert_ok(search_layouts_telling(&train_recipe, &s->plan, 0, &s->cluster, 8, true, plan_dots_take, &s->dots,
                                     &s->found));
    const struct found *fastest = &s->found.best[0];
    for (int i = 0; i < s->found.n_best; i++) plan_dots_put(&s->dots, &s->found.best[i]);
    assert_ok(plan_dots_price_the_rest(&s->dots, &train_recipe, &s->plan, 0, &s->cluster));
    return (struct plan_page){.asked = &s->plan, .cluster = &s->cluster, .ranks = 8, .search = &s->found, .n_shown = 5,
                              .n_tied = 1, .fastest = fastest, .dots = &s->dots, .command = "train <&>"};
}
static void searched_fini(struct searched *s) {
    search_fini(&s->found);
    plan_dots_fini(&s->dots);
}

static json_t *json_of(const struct plan_page *page) {
    static const struct tipping NONE[N_ASSUMPTIONS];
    struct plan_page p = *page;
    json_t *o;
    if (!p.tipping) p.tipping = NONE;
    assert_ok(plan_page_json(&p, &o));
    return o;
}
static json_t *cell(json_t *rows, size_t row, size_t column) {
    return json_array_get(json_array_get(rows, row), column);
}
static const char *text_at(json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }
static double number_at(json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* The number of dots with this layout, its numbers and this word. */
static int dots_of(json_t *dots, const struct found *f, const char *why) {
    char text[192];
    size_t i;
    json_t *dot;
    int n = 0;
    layout_text(&f->layout, text, sizeof text);
    json_array_foreach(dots, i, dot)
        n += !strcmp(text_at(dot, "layout"), text) && number_at(dot, "step_s") == f->price.step_s &&
             number_at(dot, "memory_bytes") == (double)f->price.total_bytes && !strcmp(text_at(dot, "why"), why);
    return n;
}

TEST(test_every_layout_has_a_mark_with_its_numbers) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    const struct search_stat *n = &s->found.stat;
    json_t *o = json_of(&page), *dots = json_object_get(o, "dots"), *fit = json_object_get(dots, "fit"), *dot;
    size_t k;
    /* the search has priced the kept layouts before, so none is drawn twice */
    assert_int_equal(s->dots.fit.n, n->priced - n->no_fit);
    assert_int_equal(s->dots.refined, 0);
    assert_true(n->no_fit > 0 && s->dots.no_fit.seen == n->no_fit);
    assert_int_equal(json_array_size(fit), s->dots.fit.n);
    assert_int_equal(json_array_size(json_object_get(dots, "no_fit")), s->dots.no_fit.n);
    json_array_foreach(json_object_get(dots, "no_fit"), k, dot)
        assert_string_equal(text_at(dot, "why"), "does not fit");
    for (int i = 0; i < s->found.n_best; i++) {
        double times = s->found.best[i].price.step_s / s->found.best[0].price.step_s;
        if (times > 1 + MODEL_ERROR) continue;
        assert_int_equal(dots_of(fit, &s->found.best[i], "tied with the fastest"), 1);
    }
    assert_int_equal((int64_t)number_at(o, "room_bytes"), s->cluster.memory_bytes);
    assert_string_equal(text_at(o, "command"), "train <&>");
    json_decref(o);
    searched_fini(s);
    free(s);
}

/* A layout that does not fit is priced in full: its bytes exceed the limit, and its step is known. */
TEST(test_marks_that_do_not_fit_lie_beyond_the_wall) {
    struct searched *s = calloc(1, sizeof *s);
    page_of(s);
    for (int i = 0; i < s->dots.no_fit.n; i++) {
        const struct plan_dot *d = &s->dots.no_fit.dot[i];
        double sum = 0;
        for (int k = 0; k < N_PARTS; k++) sum += d->part_s[k];
        assert_true(d->bytes > s->cluster.memory_bytes && d->step_s > 0);
        assert_close(sum, d->step_s, 1e-9 * d->step_s);
    }
    for (int i = 0; i < s->dots.fit.n; i++) assert_true(s->dots.fit.dot[i].bytes <= s->cluster.memory_bytes);
    searched_fini(s);
    free(s);
}

TEST(test_phases_are_the_steps_of_what_is_printed) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    json_t *o = json_of(&page), *shown = json_object_get(o, "parts_s"), *part;
    size_t k;
    assert_int_equal(json_array_size(json_object_get(o, "parts")), N_PARTS);
    assert_int_equal(json_array_size(shown), 5);
    for (size_t i = 0; i < 5; i++) {
        double sum = 0;
        json_array_foreach(json_array_get(shown, i), k, part) sum += json_number_value(part);
        assert_close(sum, s->found.best[i].price.step_s, 1e-9 * sum);
    }
    json_decref(o);
    searched_fini(s);
    free(s);
}

/* For any number of layouts the sample keeps at most the limit, evenly: the first, and every 2^k-th after it. */
TEST(test_kept_dots_are_few_and_even) {
    struct plan_dots d;
    struct found *f = calloc(1, sizeof *f);
    plan_dots_init(&d);
    for (int i = 0; i < 10 * MOST_DOTS_THAT_DO_NOT; i++) {
        f->price.total_bytes = i;
        plan_dots_take(&d, f);
        assert_true(d.no_fit.n <= MOST_DOTS_THAT_DO_NOT);
    }
    assert_int_equal(d.no_fit.seen, 10 * MOST_DOTS_THAT_DO_NOT);
    assert_true(d.no_fit.n > MOST_DOTS_THAT_DO_NOT / 2 && d.fit.n == 0);
    for (int i = 0; i < d.no_fit.n; i++) assert_int_equal(d.no_fit.dot[i].bytes, 16 * i);
    plan_dots_fini(&d);
    free(f);
}

/* plan_dots_put of a layout that the search has not seen adds a dot, and counts it; of a seen layout it does not. */
TEST(test_what_is_refined_is_counted_apart) {
    struct searched *s = calloc(1, sizeof *s);
    struct found *f = calloc(1, sizeof *f);
    page_of(s);
    int before = s->dots.fit.n;
    *f = s->found.best[0];
    f->layout.blocks = 1, f->layout.choice[DECIDE_RECOMPUTE] = KEEP_SOME;
    plan_dots_put(&s->dots, f);
    plan_dots_put(&s->dots, f);
    assert_int_equal(s->dots.fit.n, before + 1);
    assert_int_equal(s->dots.refined, 1);
    searched_fini(s);
    free(s);
    free(f);
}

/* ---- tables ---- */
TEST(test_ties_are_marked_and_counted) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    for (page.n_tied = 1; page.n_tied < 8; page.n_tied++) {
        json_t *o = json_of(&page);
        char said[32];
        snprintf(said, sizeof said, page.n_tied > 1 ? "= %d layouts" : "no other layout", page.n_tied);
        assert_int_equal(count(text_at(o, "ties"), said), 1);
        assert_int_equal(count(text_at(o, "ties"), ", 5 of them here,"), page.n_tied > 5);
        json_decref(o);
    }
    searched_fini(s);
    free(s);
}

TEST(test_a_tipping_point_has_its_side_its_unit_and_who_wins) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    const struct layout other = s->found.best[3].layout;
    const struct tipping tipping[N_ASSUMPTIONS] = {
        [ASSUME_WIRE] = {20e9, 31e9, other}, [ASSUME_PRODUCTS] = {0.79, 0.4, other},
        [ASSUME_RESERVE] = {5 * GIB, 0, {{0}}}};
    char name[192];
    layout_text(&other, name, sizeof name);
    const char *const WANTED[N_ASSUMPTIONS][3] = {
        [ASSUME_WIRE] = {"20 GB/s", "above 31 GB/s", name}, [ASSUME_PRODUCTS] = {"0.79", "below 0.4", name},
        [ASSUME_RESERVE] = {"5 GiB", "no value from a quarter to four times as much changes the choice", ""}};
    page.tipping = tipping;
    json_t *rows = plan_rows_tipping(&page);
    for (size_t i = 0; i < N_ASSUMPTIONS; i++)
        for (size_t k = 0; k < 3; k++) assert_string_equal(json_string_value(cell(rows, i, k + 1)), WANTED[i][k]);
    json_decref(rows);
    page.fastest = NULL;
    rows = plan_rows_tipping(&page);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    searched_fini(s);
    free(s);
}

/* Rows for each choice of a decision with several choices. The fastest layout's choices are marked, and a choice that
 * does not fit has its bytes. */
TEST(test_families_say_what_a_choice_costs) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    json_t *rows = plan_rows_families(&page);
    int n = 0, fastest = 0;
    for (int i = 0; i < s->found.n_families; i++) {
        const struct family *f = &s->found.families[i];
        if (!plan_family_is_open(&s->found, i)) continue;
        json_t *where = cell(rows, (size_t)n, 4);
        assert_string_equal(json_string_value(cell(rows, (size_t)n++, 0)), decision_name(f->decision));
        assert_true(json_is_object(where) == !f->fits);
        fastest += json_is_string(where) && !strcmp(json_string_value(where), "is the fastest's");
    }
    assert_true(n > 5 && fastest > 1);
    assert_int_equal(json_array_size(rows), n);
    json_decref(rows);
    searched_fini(s);
    free(s);
}

/* ---- the pipeline ---- */
TEST(test_a_long_pipeline_is_shortened_to_rounds) {
    assert_int_equal(plan_pipeline_microbatches(4, 1, 16), 16);      /* 128 boxes */
    assert_int_equal(plan_pipeline_microbatches(8, 12, 48), 16);     /* two rounds at least: 3072 boxes */
    assert_int_equal(plan_pipeline_microbatches(8, 1, 480), 184);    /* 23 rounds: 2944 boxes */
    assert_int_equal(plan_pipeline_microbatches(64, 1, 64), 64);
}

static int boxes_of(json_t *pipeline, const char *kind) {
    json_t *stage, *action;
    size_t i, k;
    int n = 0;
    json_array_foreach(json_object_get(pipeline, "stages"), i, stage)
        json_array_foreach(stage, k, action) n += !strcmp(json_string_value(json_array_get(action, 0)), kind);
    return n;
}

TEST(test_a_pipeline_has_a_box_an_action) {
    struct searched *s = calloc(1, sizeof *s);
    struct layout l = {.choice = {[DECIDE_TP] = 1, [DECIDE_PP] = 4, [DECIDE_CP] = 1, [DECIDE_EP] = 1,
                                  [DECIDE_MICRO] = 4, [DECIDE_CHUNKS] = 1}, .dp = 2};
    json_t *x;
    s->plan = small();
    assert_ok(cluster_read("dgx-a100", &s->cluster));
    assert_ok(plan_pipeline(&train_recipe, &s->plan, 0, &s->cluster, &l, NULL, &x));
    assert_int_equal(boxes_of(x, "F"), 4 * 8);                       /* 64 sequences, 2 replicas of 4 at a time */
    assert_int_equal(boxes_of(x, "B"), 4 * 8);
    assert_string_equal(text_at(x, "title"), "1f1b: 4 stages, 8 microbatches");
    json_decref(x);
    l.choice[DECIDE_PP] = 1, l.dp = 8;
    assert_ok(plan_pipeline(&train_recipe, &s->plan, 0, &s->cluster, &l, NULL, &x));
    assert_null(x);
    free(s);
}

/* The numbers of a budget's page, from made-up lines. */

static json_t *at(json_t *o, size_t i) { return json_array_get(o, i); }

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

TESTS(unit_test(test_every_layout_has_a_mark_with_its_numbers),
      unit_test(test_marks_that_do_not_fit_lie_beyond_the_wall),
      unit_test(test_phases_are_the_steps_of_what_is_printed), unit_test(test_kept_dots_are_few_and_even),
      unit_test(test_what_is_refined_is_counted_apart), unit_test(test_ties_are_marked_and_counted),
      unit_test(test_a_tipping_point_has_its_side_its_unit_and_who_wins),
      unit_test(test_families_say_what_a_choice_costs), unit_test(test_a_long_pipeline_is_shortened_to_rounds),
      unit_test(test_a_pipeline_has_a_box_an_action), unit_test(test_shares_are_of_lines_that_fit),
      unit_test(test_mfu_has_two_dots_a_line), unit_test(test_goodput_marks_both_intervals),
      unit_test(test_cells_meet_their_walls), unit_test(test_reach_is_the_row_s),
      unit_test(test_the_picture_says_what_the_json_says), unit_test(test_sizes_are_those_in_the_scale))
