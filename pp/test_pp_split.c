/* ranks: 1  device: cpu
 *
 * Which layer is on which stage: even, uneven, as given, and every invalid way to give it. */
#include "driver/recipe.h"
#include "lib/base/stage_notation.h"
#include "pp/pp.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 64 };

static struct plan plan_of(int layers, int pp, const char *split) {
    struct plan plan;
    assert_ok(recipe_plan(&plan));
    plan.layers = layers;
    plan.mesh.pp = pp;
    snprintf(pp_options(&plan)->split, sizeof pp_options(&plan)->split, "%s", split);
    return plan;
}

/* "0 0 1" */
static const char *stages(int layers, int pp, const char *split) {
    static char text[256];
    struct plan plan = plan_of(layers, pp, split);
    int stage_of[MAX_LAYERS];
    size_t used = 0;
    assert_ok(pp_assign_layers(&plan, stage_of));
    for (int l = 0; l < layers; l++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", l ? " " : "", stage_of[l]);
    return text;
}

TEST(test_pp_split_is_even_where_it_can_be) {
    assert_string_equal(stages(4, 1, ""), "0 0 0 0");
    assert_string_equal(stages(4, 2, ""), "0 0 1 1");
    assert_string_equal(stages(4, 4, ""), "0 1 2 3");
}

TEST(test_pp_split_gives_the_first_stages_one_more) {
    assert_string_equal(stages(5, 2, ""), "0 0 0 1 1");
    assert_string_equal(stages(8, 3, ""), "0 0 0 1 1 1 2 2");
    assert_string_equal(stages(7, 4, ""), "0 0 1 1 2 2 3");
}

/* No layer is left out, none is out of order, and no two stages differ by more than one layer. */
static void check_even(int layers, int pp) {
    struct plan plan = plan_of(layers, pp, "");
    int stage_of[MAX_LAYERS], n[MAX_LAYERS] = {0};
    assert_ok(pp_assign_layers(&plan, stage_of));
    for (int l = 0; l < layers; l++) {
        assert_in_range(stage_of[l], 0, pp - 1);
        if (l > 0) assert_in_range(stage_of[l] - stage_of[l - 1], 0, 1);
        n[stage_of[l]]++;
    }
    for (int s = 0; s < pp; s++) assert_in_range(n[s], layers / pp, (layers + pp - 1) / pp);
}

TEST(test_pp_split_of_every_size_is_a_partition) {
    for (int layers = 1; layers <= MAX_LAYERS; layers++)
        for (int pp = 1; pp <= layers; pp++) check_even(layers, pp);
}

TEST(test_pp_split_does_as_told) {
    assert_string_equal(stages(8, 2, "3,5"), "0 0 0 1 1 1 1 1");
    assert_string_equal(stages(8, 4, "1,3,2,2"), "0 1 1 1 2 2 3 3");
    assert_string_equal(stages(3, 1, "3"), "0 0 0");
}

/* Source: Megatron-Core, docs of --pipeline-model-parallel-layout. Here no stage is without a layer. */
TEST(test_pp_split_reads_megatron_s_notation) {
    char counts[256], text[64];
    static const char *const PAIRS[][2] = {
        {"Et*3|(tt|)*3,tL", "3,2,2,2,1"}, {"Et*2|(t*2|)*34,t*2L", NULL}, {"Et|tL", "1,1"}, {"t|t", "1,1"},
        {"E|tL", ""}, {"Et||tL", ""}, {"Et|tL|", ""}, {"Et|Et", ""}, {"EtL|t", ""}, {"Et|m|tL", ""}, {"Et*0|tL", ""},
        {"Et*|tL", ""}, {"(t|)*2(", ""}, {"((t|)*2)*2t", ""}, {"Et*99999999", ""}, {"(t*4000|)*4000t", ""}, {"t)", ""}};
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        const char *got = stage_notation_counts(PAIRS[i][0], counts, sizeof counts);
        if (PAIRS[i][1]) assert_string_equal(got, PAIRS[i][1]);
        else assert_int_equal(strlen(got), 2 * 36 - 1);
    }
    assert_string_equal(stages(8, 3, "Et*2|t*5|tL"), "0 0 1 1 1 1 1 2");
    static const char *const BACK[][2] = {{"3,2,2,2,1", "Et*3|(t*2|)*3tL"}, {"1,1", "Et|tL"}, {"8", "Et*8L"},
                                          {"2,1,1,4,4,3", "Et*2|(t|)*2(t*4|)*2t*3L"}};
    for (size_t i = 0; i < sizeof BACK / sizeof *BACK; i++) {
        assert_true(stage_notation_write(BACK[i][0], text, sizeof text));
        assert_string_equal(text, BACK[i][1]);
        assert_string_equal(stage_notation_counts(text, counts, sizeof counts), BACK[i][0]);
    }
    assert_false(stage_notation_write("3,2,2,2,1", text, 8));
    assert_false(stage_notation_write("3,,1", text, sizeof text));
}

TEST(test_pp_split_refuses_every_bad_form) {
    static const char *const bad[] = {"8",
                                      "3,4",
                                      "3,6",
                                      "2,2,4",
                                      "3,5,",
                                      ",8",
                                      "3,,5",
                                      ",",
                                      "0,8",
                                      "8,0",
                                      "-1,9",
                                      "3;5",
                                      "3 5",
                                      "3,5x",
                                      "x3,5",
                                      "3.5,4.5",
                                      "eight",
                                      "99999999999999999999,1",
                                      "-99999999999999999999,1",
                                      "1,99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct plan plan = plan_of(8, 2, bad[i]);
        int stage_of[MAX_LAYERS];
        char told[64];
        snprintf(told, sizeof told, "pp-split=%s does not split", bad[i]);
        assert_fails(pp_assign_layers(&plan, stage_of), E_CONFIG, told, "layers=8", "pp=2", "give 2 positive counts",
                     "sum to 8");
        assert_fails(technique_pp.check(&plan), E_CONFIG, told);
    }
}

TEST(test_pp_split_refuses_more_stages_than_layers) {
    struct plan plan = plan_of(4, 5, ""), told = plan_of(4, 5, "1,1,1,1");
    int stage_of[MAX_LAYERS];
    assert_fails(pp_assign_layers(&plan, stage_of), E_CONFIG, "pp=5", "layers=4", "use pp 4 or less");
    assert_fails(pp_assign_layers(&told, stage_of), E_CONFIG, "pp=5", "layers=4");
    plan.mesh.pp = 4;
    assert_ok(technique_pp.check(&plan));
}

/* A schedule other than the default, or a split, is legal at pp=1 and must be obeyed or refused, so pp is on. */
TEST(test_pp_is_wanted_when_anything_of_it_is_asked_for) {
    struct plan none = plan_of(4, 1, ""), stages2 = plan_of(4, 2, ""), split = plan_of(4, 1, "4"),
                gpipe = plan_of(4, 1, "");
    pp_options(&gpipe)->schedule = SCHEDULE_GPIPE;
    assert_false(technique_pp.wanted(&none));
    assert_true(technique_pp.wanted(&stages2));
    assert_true(technique_pp.wanted(&split));
    assert_true(technique_pp.wanted(&gpipe));
}

TESTS(unit_test(test_pp_split_is_even_where_it_can_be), unit_test(test_pp_split_gives_the_first_stages_one_more),
      unit_test(test_pp_split_of_every_size_is_a_partition), unit_test(test_pp_split_does_as_told),
      unit_test(test_pp_split_reads_megatron_s_notation),
      unit_test(test_pp_split_refuses_every_bad_form), unit_test(test_pp_split_refuses_more_stages_than_layers),
      unit_test(test_pp_is_wanted_when_anything_of_it_is_asked_for))
