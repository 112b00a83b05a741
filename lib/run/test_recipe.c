/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "lib/run/recipe.h"
#include <stdlib.h>
#include <string.h>

/* Two techniques with options of their own. The second's struct starts behind the first's. */
struct first_own { double strength; int on; };
struct second_own { int64_t every; };
static const struct option FIRST[] = {
    {"test-strength", OPTION_REAL, "0.5", 0, 1, NULL, "", "", "test", offsetof(struct first_own, strength)},
    {"test-on", OPTION_BOOL, "off", 0, 0, NULL, "", "", "test", offsetof(struct first_own, on)},
};
static const struct option SECOND[] = {{"test-every", OPTION_INT, "7", 1, 99, NULL, "", "", "test",
                                        offsetof(struct second_own, every)}};
static const struct technique first = {.name = "first", .options = {FIRST, 2, sizeof(struct first_own)}};
static const struct technique stranger = {.name = "stranger"};
static const struct technique none = {.name = "none"};
static const struct technique second = {.name = "second", .options = {SECOND, 1, sizeof(struct second_own)}};

/* A model with an option of its own, and two presets. */
struct model_own { int64_t width; };
static const struct option THIRD[] = {{"test-width", OPTION_INT, "4", 1, 99, NULL, "", "", "test",
                                       offsetof(struct model_own, width)}};
static const struct model_preset PRESETS[] = {{"narrow", "layers=2"}, {"wide", "layers=5 test-width=40"}, {NULL, NULL}};
static const struct model model = {.name = "model", .presets = {PRESETS},
                                   .options = {THIRD, 1, sizeof(struct model_own)}};
static const struct model_preset OTHERS[] = {{"other", "layers=3"}, {NULL, NULL}};
static const struct model like = {.name = "like", .presets = {OTHERS}, .options = {THIRD, 1, 0}};
static const struct model unlike = {.name = "unlike", .presets = {OTHERS}};
static const struct model *const models[] = {&model};

static enum status make(const struct recipe *recipe, struct plan *plan, struct option_table *table,
                        struct options **options) {
    *options = NULL;
    TRY(recipe_options_join(recipe, table));
    plan->recipe = recipe;
    return options_create(table, 1, plan, options);
}

TEST(test_techniques_bring_options_into_the_plan) {
    const struct technique *const list[] = {&first, &none, &second};
    const struct recipe recipe = {list, 3, models, 1, NULL};
    char *const words[] = {"--test-strength", "0.25", "--test-every", "9", "--layers", "3"};
    struct plan plan = {0};
    struct option_table table;
    struct options *o;
    assert_int_equal(make(&recipe, &plan, &table, &o), OK);
    const struct first_own *a = plan_own(&plan, &first.options);
    const struct second_own *b = plan_own(&plan, &second.options);
    assert_close(a->strength, 0.5, 0);
    assert_int_equal(options_parse(o, 6, words), OK);
    assert_close(a->strength, 0.25, 0);
    assert_int_equal(a->on, 0);
    assert_int_equal(b->every, 9);
    assert_int_equal(plan.layers, 3);
    static struct plan copy;
    copy = plan;                                                     /* copying a plan copies all its options */
    assert_int_equal(((const struct second_own *)plan_own(&copy, &second.options))->every, 9);
    assert_null(plan_own(&plan, &stranger.options));
    plan_set_number(&plan, "test-on", 1);
    plan_set_number(&plan, "test-nowhere", 1);                       /* no owner in the recipe has this option */
    assert_int_equal(plan_number(&plan, "test-on"), 1);
    assert_int_equal(plan_number(&plan, "test-every"), 9);
    assert_int_equal(plan_number(&plan, "test-strength"), 0);        /* 0.25 rounded to 0, not its bits */
    assert_close(plan_real(&plan, "test-every"), 9, 0);
    assert_int_equal(plan_number(&plan, "test-nowhere"), 0);
    assert_false(plan_has_word(&plan, "test-nowhere", ""));
    options_destroy(&o);
    free((void *)table.option);
}

TEST(test_options_that_do_not_fit_are_refused) {
    const size_t most = PLAN_OWN_BYTES - sizeof(struct shared_options);
    const struct technique large = {.name = "large", .options = {FIRST, 1, most - 4}};
    const struct technique *const list[] = {&large, &second};
    const struct recipe recipe = {.techniques = list, .n_techniques = 2};
    struct option_table table;
    assert_fails(recipe_options_join(&recipe, &table), E_INTERNAL, "--test-every", "8 bytes", "0 of a plan's 32768");
    free((void *)table.option);
}

TEST(test_an_option_of_another_model_is_refused) {
    const struct model *const three[] = {&model, &like, &unlike};
    const struct recipe recipe = {.models = three, .n_models = 3};
    for (int typed = 0; typed < 2; typed++)
        for (int i = 0; i < 3; i++) {
            struct plan plan = {0};
            struct option_table table;
            struct options *o;
            char *const words[] = {"--arch", (char *)three[i]->name, "--model", i ? "other" : "narrow", "--test-width",
                                   "5"};
            assert_int_equal(make(&recipe, &plan, &table, &o), OK);
            assert_int_equal(options_parse(o, typed ? 6 : 4, words), OK);
            if (typed && three[i] == &unlike)
                assert_fails(recipe_preset(&plan, o), E_CONFIG, "test-width is an option of arch=model", "arch=unlike");
            else assert_int_equal(recipe_preset(&plan, o), OK);
            options_destroy(&o);
            free((void *)table.option);
        }
}

TEST(test_an_option_of_two_techniques_is_refused) {
    const struct technique *const list[] = {&first, &first};
    const struct recipe recipe = {.techniques = list, .n_techniques = 2};
    struct plan plan = {0};
    struct option_table table;
    struct options *o;
    assert_fails(make(&recipe, &plan, &table, &o), E_INTERNAL, "--test-strength");
    free((void *)table.option);
}

TEST(test_a_preset_stands_below_what_was_typed) {
    const struct technique *const list[] = {&first, &none, &second};
    const struct recipe recipe = {list, 3, models, 1, NULL};
    char *const words[] = {"--model", "wide", "--layers", "3"}, *const other[] = {"--model", "wider"};
    struct plan plan = {0};
    struct option_table table;
    struct options *o;
    assert_ok(make(&recipe, &plan, &table, &o));
    assert_ok(options_parse(o, 4, words));
    assert_ok(recipe_preset(&plan, o));
    assert_true(plan.arch == &model && plan.layers == 3);
    assert_int_equal(((const struct model_own *)plan_own(&plan, &model.options))->width, 40);
    assert_ok(options_parse(o, 2, other));
    assert_fails(recipe_preset(&plan, o), E_CONFIG, "model=wider", "use one of narrow, wide");
    options_destroy(&o);
    free((void *)table.option);
}

TESTS(unit_test(test_a_preset_stands_below_what_was_typed), unit_test(test_techniques_bring_options_into_the_plan),
      unit_test(test_options_that_do_not_fit_are_refused), unit_test(test_an_option_of_another_model_is_refused),
      unit_test(test_an_option_of_two_techniques_is_refused))
