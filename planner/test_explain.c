/* ranks: 1  device: cpu
 * Ties, and tipping points: the other layout wins beyond the value, and not before. */
#include "driver/recipe.h"
#include "planner/explain.h"
#include "planner/why.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>

static struct plan medium(void) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    p.layers = 16, p.hidden = 2048, p.heads = 16, p.seq = 2048, p.vocab = 32768, p.global_batch = 64;
    p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    return p;
}

static struct cluster gpus(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    return c;
}

static void search(const struct plan *p, const struct cluster *c, struct search *s) {
    assert_ok(search_layouts(&train_recipe, p, 0, c, 32, true, s));
    assert_true(s->n_best > 8);
}

static double step_of(const struct plan *asked, const struct layout *l, const struct cluster *c) {
    static struct price x;
    struct plan p;
    assert_true(layout_settle(&train_recipe, l, 0, asked, &p));
    assert_ok(price_plan(&train_recipe, &p, c, NULL, &x));
    return x.step_s;
}

TEST(test_ties_are_ordered_by_memory) {
    struct plan p = medium();
    struct cluster c = gpus();
    struct search s;
    search(&p, &c, &s);
    double fastest = s.best[0].price.step_s;
    int tied = explain_order(&s);
    assert_in_range(tied, 1, s.n_best);
    for (int i = 0; i < s.n_best; i++) {
        const struct price *x = &s.best[i].price, *last = &s.best[i ? i - 1 : 0].price;
        assert_true((x->step_s <= fastest * (1 + MODEL_ERROR)) == (i < tied));
        if (i < tied) assert_true(x->total_bytes >= last->total_bytes);
        else if (i > tied) assert_true(x->step_s >= last->step_s);
    }
    search_fini(&s);
}

/* Price both layouts with *value a little beyond the tipping point, unchanged, and a little before the point. */
static void check_tipping(const struct plan *p, const struct cluster *c, const struct layout *best, double *value,
                          const struct tipping *t, struct cluster *other) {
    if (t->beyond == 0) return;
    double far = t->beyond > t->now ? 1.02 : 0.98;
    *value = t->beyond * far;
    assert_true(step_of(p, &t->other, other) < step_of(p, best, other));
    *value = t->now;
    assert_true(step_of(p, &t->other, c) >= step_of(p, best, c));
    *value = t->beyond / far;
    assert_true(step_of(p, &t->other, other) >= step_of(p, best, other));
}

TEST(test_tipping_points_tip) {
    struct plan p = medium();
    struct search s;
    int seen = 0;
    for (double gbs = 2.5; gbs <= 40; gbs *= 4) {
        struct cluster c = gpus();
        struct tipping t[N_ASSUMPTIONS];
        c.level[c.n_levels - 1].bytes_per_s = gbs * 1e9;
        struct cluster other = c;
        search(&p, &c, &s);
        assert_ok(explain_tipping(&train_recipe, &p, 0, &c, &s, t));
        const struct layout *best = &s.best[0].layout;
        check_tipping(&p, &c, best, &other.level[c.n_levels - 1].bytes_per_s, &t[ASSUME_WIRE], &other);
        other = c;
        check_tipping(&p, &c, best, &other.product_part, &t[ASSUME_PRODUCTS], &other);
        assert_close(t[ASSUME_RESERVE].beyond, (double)(c.memory_bytes - s.best[0].price.total_bytes), 0);
        seen += (t[ASSUME_WIRE].beyond > 0) + (t[ASSUME_PRODUCTS].beyond > 0);
        search_fini(&s);
    }
    assert_true(seen > 1);
}

/* ---- by what a layout loses ---- */
/* Every phase has a part, and the parts add up to the step. Time outside the phases counts as bubble. */
TEST(test_parts_add_up_to_the_step) {
    double phase_s[N_PRICE_PHASES], out[N_PARTS], sum = 0;
    for (int i = 0; i < N_PRICE_PHASES; i++) phase_s[i] = 1 << i;
    part_seconds(phase_s, (1 << N_PRICE_PHASES) - 1 + 0.5, out);
    for (int i = 0; i < N_PARTS; i++) sum += out[i];
    assert_true(sum == (1 << N_PRICE_PHASES) - 1 + 0.5);
    assert_true(out[PART_LAYERS] == (1 << PRICE_TP) + (1 << PRICE_CP) + (1 << PRICE_EP));
    assert_true(out[PART_BUBBLE] == (1 << PRICE_BUBBLE) + 0.5);
    assert_true(out[PART_REPLICAS] == (1 << PRICE_DP) + (1 << PRICE_GATHER));
    for (int i = 0; i < N_PARTS; i++) assert_string_not_equal(part_name((enum part)i), "?");
}

/* Each part of the fastest layout takes 1 s. */
static enum why with(enum part p, double seconds, enum part q, double other) {
    double best[N_PARTS], x[N_PARTS];
    for (int i = 0; i < N_PARTS; i++) best[i] = x[i] = 1;
    x[p] += seconds, x[q] += other;
    return why_of(x, true, best);
}

TEST(test_a_layout_loses_by_its_largest_difference) {
    static const enum why EXPECTED[N_PARTS] = {WHY_COMPUTE,  WHY_COMPUTE,  WHY_REPLAY,   WHY_LAYERS,
                                               WHY_PIPELINE, WHY_PIPELINE, WHY_REPLICAS, WHY_REPLICAS};
    for (int i = 0; i < N_PARTS; i++) {
        assert_int_equal(with((enum part)i, 2, PART_PRODUCTS, -1), i ? EXPECTED[i] : WHY_COMPUTE);
        assert_string_not_equal(why_name(EXPECTED[i]), "?");
    }
    /* bubble and messages are one reason: together they exceed the replays */
    double best[N_PARTS] = {10}, x[N_PARTS] = {10, [PART_REPLAY] = 3, [PART_BUBBLE] = 2, [PART_PP] = 2};
    assert_int_equal(why_of(x, true, best), WHY_PIPELINE);
    assert_int_equal(why_of(x, false, best), WHY_NO_FIT);
}

TEST(test_a_layout_is_tied_within_the_models_error) {
    const double best = N_PARTS, error = MODEL_ERROR * best;
    assert_int_equal(with(PART_REPLAY, error * (1 - 1e-9), PART_PP, 0), WHY_TIED);
    assert_int_equal(with(PART_REPLAY, error * (1 + 1e-9), PART_PP, 0), WHY_REPLAY);
    assert_int_equal(with(PART_REPLAY, 1, PART_PP, -1), WHY_TIED);   /* the same time, in other parts */
}

TESTS(unit_test(test_ties_are_ordered_by_memory), unit_test(test_tipping_points_tip),
      unit_test(test_parts_add_up_to_the_step), unit_test(test_a_layout_loses_by_its_largest_difference),
      unit_test(test_a_layout_is_tied_within_the_models_error))
