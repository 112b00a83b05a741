/* ranks: 1  device: cpu
 *
 * The options of a plan, and those of the job, the techniques and the models. */
#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "pp/pp.h"
#include "tests/test.h"
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

TESTS(unit_test(test_table_has_the_promised_names), unit_test(test_every_option_says_what_it_means),
      unit_test(test_every_field_has_one_option), unit_test(test_defaults_are_the_promised_ones),
      unit_test(test_choices_are_in_the_order_of_their_enums))
