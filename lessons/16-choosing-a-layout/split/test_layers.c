/* ranks: 1  device: cpu
 *
 * One claim per test, with splits that can be found by hand. planner/test_choose.c has random splits. */
#include "driver/recipe.h"
#include "planner/choose.h"
#include "planner/split.h"
#include "pp/pp.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { MOST_STAGES = 8 };

/* The split as text, "8 8 8 6". Static storage. */
static const char *split_text(int n, int64_t layers, double layer_s, const double *fixed_s, const int64_t *most) {
    static char text[128];
    int64_t *layers_of = test_block((size_t)n * sizeof *layers_of);
    assert_ok(split_layers(n, layers, layer_s, test_block_of(fixed_s, (size_t)n * sizeof *fixed_s),
                           test_block_of(most, (size_t)n * sizeof *most), layers_of));
    for (int i = 0, at = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", i ? " " : "", (int)layers_of[i]);
    return text;
}

TEST(test_layers_the_head_counts) {
    const int64_t room[4] = {30, 30, 30, 30};
    assert_string_equal(split_text(4, 32, 1, (double[]){0, 0, 0, 0}, room), "8 8 8 8");
    assert_string_equal(split_text(4, 30, 1, (double[]){0, 0, 0, 1.65}, room), "8 8 8 6");
    assert_string_equal(split_text(4, 30, 1, (double[]){1.5, 0, 0, 1.65}, room), "7 8 8 7");
    assert_string_equal(split_text(2, 10, 1, (double[]){0, 4}, room), "7 3");
}

/* The average of all splits is the same, so the maximum must be compared. */
TEST(test_layers_the_slowest_counts) {
    const int64_t room[3] = {30, 30, 30};
    assert_string_equal(split_text(3, 12, 1, (double[]){0, 0, 5.5}, room), "5 6 1");
    assert_string_equal(split_text(3, 12, 1, (double[]){5.5, 0, 0}, room), "1 5 6");
    assert_string_equal(split_text(3, 12, 0.5, (double[]){2, 0, 1}, room), "2 6 4");
}

/* 80 GB per stage. On stage i a layer has 4 GB of states, and 1 GB of activations for each of P - i microbatches. */
TEST(test_layers_of_each_stage_its_own_memory) {
    enum { P = 4 };
    const double none[P] = {0};
    int64_t most[P];
    for (int i = 0; i < P; i++) most[i] = 80 / (4 + (P - i));               /* 10 11 13 16 */
    assert_string_equal(split_text(P, 40, 1, none, most), "10 10 10 10");
    assert_string_equal(split_text(P, 46, 1, none, most), "9 11 13 13");
    assert_string_equal(split_text(P, 50, 1, none, most), "10 11 13 16");
    for (int i = 0; i < P; i++) most[i] = 80 / (4 + 2 * (P - i));           /* 6 8 10 13 */
    assert_string_equal(split_text(P, 34, 1, none, most), "6 8 10 10");
}

TEST(test_layers_no_stage_is_empty) {
    const int64_t room[3] = {9, 9, 9};
    assert_string_equal(split_text(3, 3, 1, (double[]){0, 0, 8}, room), "1 1 1");
    assert_string_equal(split_text(3, 5, 1, (double[]){0, 0, 20}, room), "1 3 1");
    assert_string_equal(split_text(3, 12, 1, (double[]){20, 0, 0}, room), "1 2 9");
}

/* Two splits whose times differ by 1e-9 of a layer. */
TEST(test_layers_the_bound_is_exact) {
    const int64_t room[3] = {9, 9, 9};
    assert_string_equal(split_text(2, 3, 1, (double[]){0, 1e-9}, room), "2 1");
    assert_string_equal(split_text(2, 3, 1, (double[]){1e-9, 0}, room), "1 2");
    assert_string_equal(split_text(3, 7, 0.1, (double[]){0, 1e-12, 2e-12}, room), "3 2 2");
}

TEST(test_layers_of_several_splits_the_last_stages_have_most) {
    const int64_t room[4] = {9, 9, 9, 9};
    assert_string_equal(split_text(4, 10, 1, (double[]){0, 0, 0, 0}, room), "1 3 3 3");
    assert_string_equal(split_text(4, 9, 1, (double[]){0, 0, 0, 1}, room), "1 3 3 2");
    assert_string_equal(split_text(4, 6, 1, (double[]){0, 0, 0, 0}, room), "1 1 2 2");
}

TEST(test_layers_refuses_what_no_stages_can_hold) {
    const double none[3] = {0};
    int64_t layers_of[3];
    assert_fails(split_layers(3, 12, 1, none, (int64_t[]){3, 4, 4}, layers_of), E_CONFIG, "12");
    assert_fails(split_layers(3, 6, 1, none, (int64_t[]){9, 0, 9}, layers_of), E_CONFIG, "6");
    assert_fails(split_layers(3, 6, 1, none, (int64_t[]){9, 9, -2}, layers_of), E_CONFIG, "6");
    assert_fails(split_layers(3, 2, 1, none, (int64_t[]){9, 9, 9}, layers_of), E_CONFIG, "2");
}

/* ---- inside the planner ---- */
static double step_of(const struct plan *asked, const struct cluster *c) {
    static struct price x;
    struct plan p = *asked;
    assert_ok(plan_settle(&p, 0));
    assert_ok(price_plan(&train_recipe, &p, c, &(struct price_wish){.uneven = true}, &x));
    return x.step_s;
}

/* Ten layers on two stages, and a head that takes as long as several layers. */
TEST(test_layers_of_a_plan) {
    struct plan p;
    struct cluster c;
    char text[256];
    assert_ok(cluster_read("dgx-a100", &c));
    assert_ok(recipe_plan(&p));
    p.layers = 10, p.hidden = 256, p.heads = 4, p.seq = 256, p.vocab = 32768, p.global_batch = 32;
    p.mesh.pp = 2, p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    double even = step_of(&p, &c);
    snprintf(pp_options(&p)->split, OPTION_TEXT_MAX, "auto");
    assert_ok(choose_auto(&train_recipe, &c, &p, text, sizeof text));
    double split = step_of(&p, &c);
    if (!(split < 0.95 * even))
        fail_msg("%s: a step takes %.3g ms, and %.3g with even stages", text, 1e3 * split, 1e3 * even);
}

TESTS(unit_test(test_layers_the_head_counts), unit_test(test_layers_the_slowest_counts),
      unit_test(test_layers_of_each_stage_its_own_memory), unit_test(test_layers_no_stage_is_empty),
      unit_test(test_layers_the_bound_is_exact), unit_test(test_layers_of_several_splits_the_last_stages_have_most),
      unit_test(test_layers_refuses_what_no_stages_can_hold), unit_test(test_layers_of_a_plan))
