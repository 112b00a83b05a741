/* ranks: 1  device: cpu
 * The choice of auto is the best of all choices. */
#include "driver/recipe.h"
#include "planner/choose.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STAGES = 3, LAYERS = 10 };

/* A head of several layers, so that even splits are bad. */
static struct plan piped(void) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    p.layers = LAYERS, p.hidden = 256, p.heads = 4, p.seq = 256, p.vocab = 32768, p.global_batch = 32;
    p.mesh.pp = STAGES, p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    return p;
}

static struct cluster gpus(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    c.reserve_bytes = 0;
    return c;
}

/* Seconds of a step. NAN: refused or too large. */
static double step_of(struct plan p, const struct cluster *c) {
    static struct price x;
    if (!layout_is_legal(&train_recipe, &p)) return NAN;
    assert_ok(price_plan(&train_recipe, &p, c, &(struct price_wish){.uneven = true}, &x));
    return x.fits ? x.step_s : NAN;
}

static double best_split(struct plan p, const struct cluster *c) {
    double best = NAN;
    for (int a = 1; a < LAYERS; a++)
        for (int b = 1; a + b < LAYERS; b++) {
            snprintf(pp_options(&p)->split, OPTION_TEXT_MAX, "%d,%d,%d", a, b, LAYERS - a - b);
            best = fmin(best, step_of(p, c));
        }
    return best;
}

static char text[256];
static void choose(struct plan *p, const struct cluster *c, double mib) {
    struct cluster limited = *c;
    cluster_limit_memory(&limited, (int64_t)(mib * (1 << 20)));
    assert_ok(choose_auto(&train_recipe, &limited, p, text, sizeof text));
    assert_true(strlen(text) > 0);
    assert_false(choose_is_asked(p));
}

static void refuses(struct plan *p, const struct cluster *c) {
    assert_fails(choose_auto(&train_recipe, c, p, text, sizeof text), E_CONFIG, "nothing that auto may choose fits",
                 "memory-limit");
}

/* With many microbatches the slowest stage decides. With few the sum counts, too, so 0.1% more is allowed. */
TEST(test_split_is_the_best_of_all_splits) {
    struct cluster c = gpus();
    struct plan p = piped(), even = piped();
    p.micro_batch = even.micro_batch = 1;
    strcpy(pp_options(&p)->split, "auto");
    choose(&p, &c, 0);
    double found = step_of(p, &c), best = best_split(even, &c);
    if (found > best * 1.001) fail_msg("%s takes %g s, and the best of all %g s", pp_options(&p)->split, found, best);
    assert_true(found < 0.95 * step_of(even, &c));
}

/* If the first stage is too full for its share, it gets less: auto finds the best of the splits that fit. */
TEST(test_split_heeds_memory) {
    struct cluster c = gpus();
    struct plan p = piped(), even = piped();
    even.micro_batch = 4;
    for (int64_t mib = 2048; mib > 64; mib = mib * 9 / 10) {
        c.memory_bytes = mib << 20;
        double best = best_split(even, &c);
        p = even;
        strcpy(pp_options(&p)->split, "auto");
        if (isnan(best)) {
            refuses(&p, &c);
            return;
        }
        choose(&p, &c, 0);
        if (step_of(p, &c) > best * 1.02)
            fail_msg("%d MiB: %s takes %g s, the best of all %g s", (int)mib, pp_options(&p)->split, step_of(p, &c),
                     best);
    }
    fail_msg("it always fits");
}

static double best_of_all(struct plan p, bool micro, const struct cluster *c) {
    double best = NAN;
    for (int64_t b = micro ? 1 : 4; b <= (micro ? p.global_batch : 4); b *= 2)
        for (int kind = RECOMPUTE_NONE; kind <= RECOMPUTE_BLOCK; kind++)
            for (int n = 1; n <= (kind == RECOMPUTE_BLOCK ? 4 : 1); n++) {
                if (kind == RECOMPUTE_UNIFORM) continue;
                p.micro_batch = b;
                *recompute_options(&p) = (struct recompute_options){kind, n};
                best = fmin(best, step_of(p, c));
            }
    return best;
}

/* With memory from enough for all to enough for nothing, auto chooses the best layout that fits. */
static void check_memory(bool micro) {
    struct plan small = piped();
    struct cluster c = gpus();
    int mixed = 0;
    small.vocab = 512;
    for (double mib = 1024; mib > 4; mib *= 0.95) {
        struct plan p = small;
        c.memory_bytes = (int64_t)(mib * (1 << 20));
        double best = best_of_all(p, micro, &c);
        p.micro_batch = micro ? PLAN_AUTO : 4;
        recompute_options(&p)->kind = RECOMPUTE_AUTO;
        if (isnan(best)) {
            refuses(&p, &c);
            assert_true(mixed > 0);
            return;
        }
        choose(&p, &c, mib);
        assert_close(step_of(p, &c) / best, 1, 1e-9);
        mixed += recompute_options(&p)->kind == RECOMPUTE_BLOCK;
    }
    fail_msg("it always fits");
}
TEST(test_recompute_is_the_best_that_fits) {
    check_memory(false);
}
TEST(test_micro_batch_and_recompute_are_the_best_that_fit) {
    check_memory(true);
}

TEST(test_what_is_not_auto_stays) {
    struct cluster c = gpus();
    struct plan p = piped();
    strcpy(pp_options(&p)->split, "2,4,4");
    p.micro_batch = PLAN_AUTO, recompute_options(&p)->kind = RECOMPUTE_SELECTIVE;
    assert_true(choose_is_asked(&p));
    choose(&p, &c, 0);
    assert_string_equal(pp_options(&p)->split, "2,4,4");
    assert_int_equal(recompute_options(&p)->kind, RECOMPUTE_SELECTIVE);
    assert_in_range(p.micro_batch, 1, 32);
    p.micro_batch = PLAN_AUTO;
    assert_fails(plan_settle(&p, 0), E_CONFIG, "micro-batch=auto", "give a number");
}

TESTS(unit_test(test_split_is_the_best_of_all_splits), unit_test(test_split_heeds_memory),
      unit_test(test_recompute_is_the_best_that_fits), unit_test(test_micro_batch_and_recompute_are_the_best_that_fit),
      unit_test(test_what_is_not_auto_stays))
