/* ranks: 1  device: cpu
 *
 * Choices compared with a search of all, with the known cost of a large model's best choice, and in the real program:
 * the test marks slots as chosen, and the planner computes saved bytes and recomputed flops. */
#include "lessons/09-recompute/choose/choose.h"

#include "lib/base/rng.h"
#include "lib/cost/activations.h"
#include "models/gpt/gpt.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { FEW = 10, MOST = 512 };

static int64_t kept(const struct candidate *v, int n, const bool *drop) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += drop[i] ? 0 : v[i].bytes;
    return bytes;
}
static double again(const struct candidate *v, int n, const bool *drop) {
    double flops = 0;
    for (int i = 0; i < n; i++)
        if (drop[i]) flops += v[i].flops;
    return flops;
}

/* ---- a few values: all 2^n choices ---- */
static double try_all(const struct candidate *v, int n, int64_t budget) {
    double least = INFINITY;
    for (int mask = 0; mask < 1 << n; mask++) {
        bool drop[FEW];
        for (int i = 0; i < n; i++) drop[i] = mask >> i & 1;
        if (kept(v, n, drop) <= budget) least = fmin(least, again(v, n, drop));
    }
    return least;
}

/* Bytes are 64 times 1 to 6, flops 0 to 20; one value in five must be kept. */
static void make_values(struct candidate v[FEW], int k) {
    for (int i = 0; i < FEW; i++) {
        uint64_t at = (uint64_t)(k * FEW + i);
        v[i] = (struct candidate){"value", 64 * (1 + (int64_t)(6 * rng_uniform(1, 1, at))),
                                  floor(21 * rng_uniform(1, 2, at))};
        if (rng_uniform(1, 3, at) < 0.2) v[i].flops = INFINITY;
    }
}

TEST(test_choose_keeps_within_the_budget) {
    for (int k = 0; k < 40; k++) {
        struct candidate v[FEW];
        bool drop[FEW];
        make_values(v, k);
        for (int64_t budget = 2400; budget >= 1000; budget -= 333) {
            memset(drop, 1, sizeof drop);
            if (isinf(try_all(v, FEW, budget))) continue;
            assert_ok(choose_values(v, FEW, 64, budget, drop));
            assert_true(kept(v, FEW, drop) <= budget);
            assert_true(isfinite(again(v, FEW, drop)));
        }
    }
}

TEST(test_choose_takes_the_least_flops) {
    for (int k = 0; k < 40; k++)
        for (int64_t budget = 2400; budget >= 300; budget -= 150) {
            struct candidate v[FEW];
            bool drop[FEW] = {0};
            make_values(v, k);
            double least = try_all(v, FEW, budget);
            if (isinf(least)) continue;
            assert_ok(choose_values(v, FEW, 64, budget, drop));
            assert_close(again(v, FEW, drop), least, 0);
        }
}

/* If no bytes must be freed, no value is recomputed, not even one that takes 0 flops. */
TEST(test_choose_drops_nothing_without_need) {
    struct candidate v[] = {{"a", 64, 0}, {"b", 128, 5}, {"c", 64, 0}};
    bool drop[3] = {true, true, true};
    assert_ok(choose_values(v, 3, 64, 256, drop));
    assert_false(drop[0] || drop[1] || drop[2]);
    assert_ok(choose_values(v, 3, 64, 1000, drop));
    assert_false(drop[0] || drop[1] || drop[2]);
}

TEST(test_choose_refuses_what_cannot_fit) {
    struct candidate v[] = {{"input", 640, INFINITY}, {"ln1", 64, 0}, {"qkv", 192, 6}};
    bool drop[3] = {false, true, false};
    assert_fails(choose_values(v, 3, 64, 639, drop), E_CONFIG, "640", "639");
    assert_true(!drop[0] && drop[1] && !drop[2]);
    assert_ok(choose_values(v, 3, 64, 640, drop));
    assert_true(!drop[0] && drop[1] && drop[2]);
}

/* ---- a GPT's layer, by hand: (B,T,C) is one unit; flops of a token, in units of 2 C^2, at T = C / 4 ---- */
enum { PER_LAYER = 8 };
static const struct candidate LAYER[PER_LAYER] = {{"input", 1, INFINITY}, {"ln1", 1, 0}, {"qkv", 3, 3}, {"att", 1, 0.5},
                                              {"res1", 1, 1},         {"ln2", 1, 0}, {"fc", 4, 4},  {"gelu", 4, 0}};

/* 64 layers. Values with 0 flops free 6 units per layer; then attention frees a unit for 1/2; then every further unit
 * costs 1. */
static double cheapest(int layers, int need) {
    int cost_free = 6 * layers, half = layers;
    if (need <= cost_free) return 0;
    if (need <= cost_free + half) return 0.5 * (need - cost_free);
    return 0.5 * half + (need - cost_free - half);
}

TEST(test_choose_among_hundreds) {
    enum { LAYERS = 64 };
    static struct candidate v[LAYERS * PER_LAYER];
    static bool drop[LAYERS * PER_LAYER];
    int64_t unit = 64 << 10;
    for (int i = 0; i < LAYERS * PER_LAYER; i++) {
        v[i] = LAYER[i % PER_LAYER];
        v[i].bytes *= unit;
    }
    for (int need = 0; need <= 15 * LAYERS; need += 60) {
        int64_t budget = (16 * LAYERS - need) * unit;
        assert_ok(choose_values(v, LAYERS * PER_LAYER, unit, budget, drop));
        assert_true(kept(v, LAYERS * PER_LAYER, drop) <= budget);
        assert_close(again(v, LAYERS * PER_LAYER, drop), cheapest(LAYERS, need), 0);
    }
}

/* ---- in the real program ---- */
enum { LAYERS = 4, C = 24, T = 8, MICRO = 2 };
static bool chosen[LAYERS][PER_LAYER];

static struct plan small_plan(void) {
    struct plan plan = parity_plan();
    plan.layers = LAYERS;
    plan.hidden = C;
    plan.micro_batch = plan.global_batch = MICRO;
    plan.loss_chunk = 0;
    return plan;
}

/* The index in LAYER of a slot's value; -1: none. proj counts as res1, because proj exists only while res1 is
 * recomputed. */
static int value_of(const char *name) {
    const char *dot = strchr(name, '.');
    if (!dot) return -1;
    if (!strcmp(dot, ".proj")) return 4;
    for (int i = 1; i < PER_LAYER; i++)
        if (!strncmp(dot + 1, LAYER[i].name, strlen(LAYER[i].name)) && (dot[1 + strlen(LAYER[i].name)] & ~'.') == 0)
            return i;
    return -1;
}

static bool always(const struct plan *plan) { return plan != NULL; }
static enum status mark_chosen(const struct plan *plan, struct program *p) {
    (void)plan;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        if (!p->blocks[s->block].is_layer) continue;
        for (int k = 0; k < s->n_out; k++) {
            int value = value_of(p->slots[s->out[k]].name);
            if (value > 0 && chosen[s->block - 1][value]) p->slots[s->out[k]].replay = true;
        }
    }
    return OK;
}
static const struct technique technique_chosen = {.name = "chosen", .wanted = always, .rewrite = mark_chosen};
static const struct technique *const CHOSEN[] = {&technique_chosen}, *const RECOMPUTE[] = {&technique_recompute};
static const struct recipe chosen_recipe = {.techniques = CHOSEN, .n_techniques = 1},
recompute_recipe = {.techniques = RECOMPUTE, .n_techniques = 1};

struct measured { int64_t saved, peak; double flops; };

static struct measured measure(void) {
    struct run r;
    struct plan plan = small_plan();
    struct activations blocks[LAYERS + 2] = {{0}};
    struct measured m = {0};
    assert_ok(plan_settle(&plan, 1));
    assert_ok(run_compile(&r, &chosen_recipe, &plan, 0, NULL, NULL));
    assert_ok(activations_count(&r.program, &r.chunks[0], blocks));
    for (int i = 0; i < LAYERS; i++) m.saved += blocks[i + 1].bytes;
    m.flops = r.bill.flops[ROW_REPLAY];
    m.peak = r.memory.bytes[TIER_DEVICE][ROLE_ACT];
    run_destroy(&r);
    return m;
}

/* The planner's saved bytes are those of the kept values, its recomputed flops are the predicted ones, and the peak
 * falls with the budget. */
TEST(test_choose_is_what_the_planner_finds) {
    struct candidate v[LAYERS * PER_LAYER];
    int64_t unit = (int64_t)MICRO * T * C * 8, peak = INT64_MAX;
    double of_unit[] = {0, 0, 6. * C * C, 4. * T * C, 2. * C * C, 0, 8. * C * C, 0}, tokens = MICRO * T;
    for (int i = 0; i < LAYERS * PER_LAYER; i++) {
        v[i] = LAYER[i % PER_LAYER];
        v[i].bytes *= unit;
        if (i % PER_LAYER) v[i].flops = tokens * of_unit[i % PER_LAYER];
    }
    for (int64_t units = 16 * LAYERS; units >= LAYERS; units -= 7) {
        assert_ok(choose_values(v, LAYERS * PER_LAYER, unit, units * unit, &chosen[0][0]));
        struct measured m = measure();
        assert_int_equal(m.saved, kept(v, LAYERS * PER_LAYER, &chosen[0][0]));
        assert_true(m.saved <= units * unit);
        assert_close(m.flops, again(v, LAYERS * PER_LAYER, &chosen[0][0]), 1e-6);
        if (units < 16 * LAYERS - 14) assert_true(m.peak < peak);    /* for large budgets the head may have the
                                                                      * peak */
        peak = m.peak;
    }
}

/* ---- groups ---- */
TEST(test_choose_group_has_the_least_bytes) {
    static const struct { int layers, in_flight, group; } cases[] = {{1, 1, 1}, {8, 1, 1}, {64, 1, 2}, {32, 1, 1},
                                                                     {64, 4, 4}, {12, 3, 2}, {96, 8, 6}, {10, 100, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int group = -1;
        assert_ok(choose_group(cases[i].layers, cases[i].in_flight, 1, 16, &group));
        assert_int_equal(group, cases[i].group);
    }
}

static int64_t planned_peak(int layers, int group) {
    struct run r;
    struct plan plan = small_plan();
    plan.layers = layers;
    recompute_options(&plan)->kind = RECOMPUTE_UNIFORM;
    recompute_options(&plan)->n = group;
    assert_ok(plan_settle(&plan, 1));
    assert_ok(run_compile(&r, &recompute_recipe, &plan, 0, NULL, NULL));
    int64_t peak = r.memory.bytes[TIER_DEVICE][ROLE_ACT];
    run_destroy(&r);
    return peak;
}

/* No other group of the real program has a smaller peak. */
TEST(test_choose_group_is_the_planners_best) {
    static const int layers[] = {6, 16, 80, 100};
    for (int i = 0; i < 4; i++) {
        int64_t unit = (int64_t)MICRO * T * C * 8;
        int group = -1;
        assert_ok(choose_group(layers[i], 1, unit, 16 * unit, &group));
        assert_in_range(group, 1, layers[i]);
        int64_t best = planned_peak(layers[i], group);
        for (int n = 1; n <= 5; n++) assert_true(planned_peak(layers[i], n) >= best);
    }
}

TESTS(unit_test(test_choose_keeps_within_the_budget), unit_test(test_choose_takes_the_least_flops),
      unit_test(test_choose_drops_nothing_without_need), unit_test(test_choose_refuses_what_cannot_fit),
      unit_test(test_choose_among_hundreds), unit_test(test_choose_is_what_the_planner_finds),
      unit_test(test_choose_group_has_the_least_bytes), unit_test(test_choose_group_is_the_planners_best))
