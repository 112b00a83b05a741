/* ranks: 1  device: cpu
 * The choice of auto is the best of all choices. */
#include "driver/recipe.h"
#include "lib/base/integer.h"
#include "lib/base/rng.h"
#include "planner/choose.h"
#include "planner/split.h"
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
/* All splits of 10 layers over 2 chunks of 3 stages. The choice balances stages, so it may miss the best by little. */
TEST(test_split_of_chunks_is_nearly_the_best) {
    struct cluster c = gpus();
    struct plan p = piped(), even, best_of;
    double best = INFINITY;
    int of[6];
    pp_options(&p)->schedule = SCHEDULE_INTERLEAVED, pp_options(&p)->chunks = 2;
    p.global_batch = 24, p.micro_batch = 1;
    even = best_of = p;
    for (int bars = 0; bars < 1 << (LAYERS - 1); bars++) {
        int n = 0;
        memset(of, 0, sizeof of);
        if (__builtin_popcount((unsigned)bars) != 5) continue;
        for (int i = 0; i < LAYERS; i++) of[n]++, n += bars >> i & 1;
        snprintf(pp_options(&best_of)->split, OPTION_TEXT_MAX, "%d,%d,%d,%d,%d,%d", of[0], of[1], of[2], of[3], of[4],
                 of[5]);
        best = fmin(best, step_of(best_of, &c));
    }
    strcpy(pp_options(&p)->split, "auto");
    choose(&p, &c, 0);
    assert_true(step_of(p, &c) < step_of(even, &c));
    assert_int_equal(sscanf(pp_options(&p)->split, "%d,%d,%d,%d,%d,%d", of, of + 1, of + 2, of + 3, of + 4, of + 5), 6);
    for (int i = 0; i < STAGES; i++) assert_true(of[i] >= of[i + STAGES]);   /* the last chunk has the head */
    assert_true(step_of(p, &c) <= best * 1.02);
}

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

/* ---- splits by themselves ---- */
enum { MOST_STAGES = 8, MOST_LAYERS = 40 };

/* The least time of the slowest stage, by dynamic programming over stages and layers; INFINITY: no split exists. */
static double least_of_all(int n, int64_t layers, double t, const double *fixed, const int64_t *most) {
    double best[MOST_LAYERS + 1], next[MOST_LAYERS + 1];
    for (int k = 0; k <= layers; k++) best[k] = k ? INFINITY : 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= layers; k++) {
            next[k] = INFINITY;
            for (int own = 1; own <= min64(most[i], k); own++)
                next[k] = fmin(next[k], fmax(best[k - own], fixed[i] + own * t));
        }
        for (int k = 0; k <= layers; k++) best[k] = next[k];
    }
    return best[layers];
}

static int64_t drawn(uint64_t k, int64_t from, int64_t to) {
    return from + (int64_t)(rng_uniform(5, rng_stream("split"), k) * (double)(to - from + 1));
}

TEST(test_split_is_that_of_all_splits) {
    uint64_t k = 0;
    int refused = 0;
    for (int round = 0; round < 2000; round++) {
        int n = (int)drawn(k++, 1, MOST_STAGES);
        int64_t layers = drawn(k++, n, MOST_LAYERS), most[MOST_STAGES], layers_of[MOST_STAGES], sum = 0;
        double fixed[MOST_STAGES] = {0}, slowest = 0, t = 0.1 + rng_uniform(5, 1, k++);
        fixed[0] += 2 * rng_uniform(5, 1, k++), fixed[n - 1] += 3 * rng_uniform(5, 1, k++);
        for (int i = 0; i < n; i++) most[i] = drawn(k++, 1, 14);
        double least = least_of_all(n, layers, t, fixed, most);
        if (split_layers(n, layers, t, fixed, most, layers_of) != OK) {
            assert_true(isinf(least));
            status_clear();
            refused++;
            continue;
        }
        for (int i = 0; i < n; i++) {
            assert_in_range(layers_of[i], 1, most[i]);
            sum += layers_of[i], slowest = fmax(slowest, fixed[i] + (double)layers_of[i] * t);
        }
        assert_int_equal(sum, layers);
        assert_close(slowest, least, 1e-12);
    }
    assert_in_range(refused, 100, 1900);
}

/* A head of 1.65 layers: its stage has one layer fewer than in an even split; and a full first stage gives its
 * layers away. */
TEST(test_split_of_a_heavy_head) {
    int64_t layers_of[4], most[4] = {30, 30, 30, 30};
    const double fixed[4] = {0, 0, 0, 1.65};
    assert_ok(split_layers(4, 30, 1, fixed, most, layers_of));
    const int64_t wanted[4] = {8, 8, 8, 6};
    for (int i = 0; i < 4; i++) assert_int_equal(layers_of[i], wanted[i]);
    most[0] = 5;
    assert_ok(split_layers(4, 30, 1, fixed, most, layers_of));
    assert_int_equal(layers_of[0], 5);
    most[0] = 0;
    assert_fails(split_layers(4, 30, 1, fixed, most, layers_of), E_CONFIG, "4 stages cannot hold layers=30");
    most[0] = 30;
    assert_fails(split_layers(4, 3, 1, fixed, most, layers_of), E_CONFIG, "4 stages cannot hold layers=3");
}

TESTS(unit_test(test_split_is_the_best_of_all_splits), unit_test(test_split_of_chunks_is_nearly_the_best),
      unit_test(test_split_heeds_memory),
      unit_test(test_recompute_is_the_best_that_fits), unit_test(test_micro_batch_and_recompute_are_the_best_that_fit),
      unit_test(test_what_is_not_auto_stays), unit_test(test_split_is_that_of_all_splits),
      unit_test(test_split_of_a_heavy_head))
