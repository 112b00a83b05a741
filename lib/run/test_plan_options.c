/* ranks: 1  device: cpu
 *
 * The options of a plan, and those of the job, the techniques and the models. */
#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "lib/run/recipe.h"
#include "pp/pp.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static struct option_table all_options(void) {
    struct option_table all;
    assert_ok(recipe_options(&all));
    return all;
}

static struct plan default_plan(void) {
    struct plan p;
    struct options *o;
    memset(&p, 0x55, sizeof p);                                      /* a field that is never set stays visible */
    assert_ok(recipe_options_create(NULL, &p, &o));
    options_destroy(&o);
    return p;
}

static size_t field_size(const struct option *o) {
    switch (o->type) {
    case OPTION_BOOL:
    case OPTION_CHOICE: return sizeof(int);
    case OPTION_TEXT: return OPTION_TEXT_MAX;
    default: return 8;
    }
}

/* Scripts and configuration files rely on these names. Options may be added, but not removed. */
TEST(test_table_has_the_promised_names) {
    const char *const promised[] = {"model",       "layers",    "hidden",       "heads",      "seq",
                                    "vocab",       "dropout",   "eps",          "steps",      "global-batch",
                                    "micro-batch", "lr",        "min-lr",       "warmup",     "weight-decay",
                                    "beta1",       "beta2",     "clip",         "seed",       "dp",
                                    "tp",          "pp",        "schedule",     "pp-split",   "precision",
                                    "attention",   "bucket-mb", "comm-timeout", "threads",    "check-collectives",
                                    "data",        "val-data",  "val-fraction", "eval-every", "eval-batches",
                                    "metrics",     "log"};
    struct option_table all = all_options();
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++) {
        bool found = false;
        for (int k = 0; k < all.n; k++) found |= !strcmp(all.option[k].name, promised[i]);
        if (!found) fail_msg("there is no option %s", promised[i]);
    }
}

TEST(test_every_option_says_what_it_means) {
    struct option_table all = all_options();
    for (int i = 0; i < all.n; i++) {
        const struct option *o = &all.option[i];
        if (!o->meaning || strlen(o->meaning) < 10 || !o->group || !o->group[0] || !o->unit)
            fail_msg("%s has no meaning, group or unit", o->name);
        bool list = o->type == OPTION_TEXT && o->choices && !strcmp(o->choices, OPTION_LIST);
        assert_true(o->type == OPTION_INT || list || (o->type == OPTION_CHOICE) == (o->choices != NULL));
        bool ranged = o->type == OPTION_INT || o->type == OPTION_REAL;
        if (ranged && !(o->min < o->max)) fail_msg("%s has an empty range", o->name);
        if (o->type == OPTION_INT && o->max > 9007199254740992.0)
            fail_msg("%s: beyond 2^53 a double misses integers", o->name);
    }
}

/* Every field before `arch`, and of struct shared_options, belongs to exactly one option. Bytes without an option are
 * padding before an 8-byte field, fewer than 8 in a row. In the rest of `own` a technique's struct may have padding
 * anywhere, but no byte may have two options. */
TEST(test_every_field_has_one_option) {
    static int owners[sizeof(struct plan)];
    struct option_table all = all_options();
    size_t shared_end = offsetof(struct plan, own) + sizeof(struct shared_options);
    memset(owners, 0, sizeof owners);
    owners[offsetof(struct plan, mesh.shard)] = 1;                   /* zero/ computes it */
    for (int i = 0; i < all.n; i++) {
        const struct option *o = &all.option[i];
        bool shared = o->at >= offsetof(struct plan, own) && o->at < shared_end;
        bool owned = o->at >= offsetof(struct plan, arch) && !shared;
        size_t end = owned || shared ? offsetof(struct plan, own) + PLAN_OWN_BYTES : offsetof(struct plan, arch);
        assert_true(owned ? i >= plan_options.n : i < plan_options.n + train_job.options.n);
        assert_in_range(o->at + field_size(o), owned ? offsetof(struct plan, own) + field_size(o) : 1, end);
        for (size_t k = 0; k < field_size(o); k++) owners[o->at + k]++;
    }
    for (size_t at = 0, unowned = 0; at < sizeof(struct plan); at++) {
        bool field = at < offsetof(struct plan, arch) || (at >= offsetof(struct plan, own) && at < shared_end);
        unowned = owners[at] || !field ? 0 : unowned + 1;
        if (owners[at] > 1 || unowned >= 8) fail_msg("byte %zu of struct plan belongs to %d options", at, owners[at]);
    }
}

/* The defaults that scripts and configuration files rely on. */
TEST(test_defaults_are_the_promised_ones) {
    struct plan p = default_plan();
    const struct train_options *o = train_options(&p);
    assert_string_equal(p.model, "tiny");
    assert_close(p.eps, 1e-8, 0);
    assert_close(p.beta1, 0.9, 0);
    assert_close(p.beta2, 0.95, 0);
    assert_close(p.weight_decay, 0.1, 0);
    assert_close(p.clip, 1.0, 0);
    assert_close(o->val_fraction, 0.1, 0);
    assert_close(comm_options(&p)->timeout, 600, 0);
    assert_true(p.warmup == 0 && o->eval_every == 250 && p.layers == 0 && p.vocab == 0);
    assert_int_equal(o->eval_batches, 0);
    assert_true(p.mesh.dp == 0 && p.mesh.tp == 1 && p.mesh.pp == 1 && pp_options(&p)->schedule == SCHEDULE_1F1B &&
                p.precision == PRECISION_AUTO);
    assert_true(p.device == PLAN_DEVICE_AUTO && p.comm == PLAN_COMM_AUTO && p.attention_core == ATTENTION_CORE_AUTO &&
                p.fuse);
    assert_ok(plan_settle_device(&p));
    if (p.device == PLAN_DEVICE_CPU) assert_int_equal(p.precision, PRECISION_FP32);
    if (p.device == PLAN_DEVICE_CUDA) assert_int_equal(p.precision, PRECISION_BF16);
    assert_true(model_options(&p)->attention == ATTENTION_BLOCKED && p.check_collectives == false);
    assert_string_equal(o->metrics, "metrics.jsonl");
    assert_string_equal(pp_options(&p)->split, "");
}

/* A choice's index in its list must be its value in an enum. */
TEST(test_choices_are_in_the_order_of_their_enums) {
    struct plan p;
    struct options *o;
    char *const line[] = {"--schedule", "gpipe", "--precision", "fp64", "--attention", "materialised", "--log",
                          "debug"};
    assert_ok(recipe_options_create(NULL, &p, &o));
    enum status status = options_parse(o, 8, line);
    options_destroy(&o);
    assert_ok(status);
    assert_true(pp_options(&p)->schedule == SCHEDULE_GPIPE && p.precision == PRECISION_FP64 &&
                model_options(&p)->attention == ATTENTION_MATERIALISED);
    assert_int_equal(train_options(&p)->log, 3);
    assert_int_equal(plan_dtype(&p), FP64);
    p.precision = PRECISION_FP32;
    assert_int_equal(plan_dtype(&p), FP32);
}

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

TESTS(unit_test(test_table_has_the_promised_names), unit_test(test_every_option_says_what_it_means),
      unit_test(test_every_field_has_one_option), unit_test(test_defaults_are_the_promised_ones),
      unit_test(test_choices_are_in_the_order_of_their_enums), unit_test(test_a_preset_stands_below_what_was_typed),
      unit_test(test_techniques_bring_options_into_the_plan), unit_test(test_options_that_do_not_fit_are_refused),
      unit_test(test_an_option_of_another_model_is_refused), unit_test(test_an_option_of_two_techniques_is_refused))
