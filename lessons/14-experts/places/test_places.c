/* ranks: 1  device: cpu
 *
 * Places by hand, and compared with the project's router (lib/ops/moe/moe_route.h). */
#include "lessons/14-experts/places/places.h"
#include "lib/ops/moe/moe_route.h"
#include "lib/ops/test_op.h"
#include <string.h>

/* ---- places per expert ---- */
static int64_t per_expert(double capacity, int64_t g, int64_t k, int64_t E) {
    int64_t places = -1;
    assert_ok(places_per_expert(capacity, g, k, E, &places));
    return places;
}

TEST(test_places_are_rounded_up_and_at_most_the_group) {
    assert_int_equal(per_expert(1, 8, 1, 4), 2);
    assert_int_equal(per_expert(1.25, 8, 1, 4), 3);                  /* 2.5 */
    assert_int_equal(per_expert(1.25, 6, 1, 4), 2);                  /* 1.875 */
    assert_int_equal(per_expert(0.5, 5, 1, 8), 1);                   /* 0.3125: every expert has a place */
    assert_int_equal(per_expert(1.25, 256, 2, 8), 80);
    assert_int_equal(per_expert(100, 256, 2, 8), 256);
    assert_int_equal(per_expert(0, 256, 2, 8), 256);
}

/* ---- choices ---- */
static void check_choices(const double *logits, int64_t experts, int64_t k, const int32_t *expected) {
    int32_t choices[PLACES_MAX_EXPERTS];
    for (int j = 0; j < PLACES_MAX_EXPERTS; j++) choices[j] = -7;
    assert_ok(places_choose(logits, experts, k, choices));
    for (int64_t j = 0; j < k; j++) assert_int_equal(choices[j], expected[j]);
    assert_int_equal(choices[k], -7);
}

TEST(test_places_choose_the_largest_first) {
    const double logits[5] = {-3, 0.5, -1, 2, 0.25};
    check_choices(logits, 5, 1, (int32_t[]){3});
    check_choices(logits, 5, 2, (int32_t[]){3, 1});
    check_choices(logits, 5, 5, (int32_t[]){3, 1, 4, 2, 0});
    check_choices((double[]){-2, -1}, 2, 2, (int32_t[]){1, 0});
}

TEST(test_places_leave_ties_to_the_lower_expert) {
    check_choices((double[]){-1, 1, 1, 1}, 4, 1, (int32_t[]){1});
    check_choices((double[]){-1, 1, 1, 1}, 4, 2, (int32_t[]){1, 2});
    check_choices((double[]){0, 2, 0, 2}, 4, 3, (int32_t[]){1, 3, 0});
}

/* ---- places of choices ---- */
static int64_t check_places(const struct places_rule *rule, int64_t tokens, const int32_t *choices,
                            const int32_t *expected) {
    int32_t places[64];
    int64_t dropped = -1, n = 0;
    for (int i = 0; i < 64; i++) places[i] = -7;
    assert_ok(places_give(rule, tokens, choices, places, &dropped));
    for (int64_t i = 0; i < tokens * rule->k; i++) {
        assert_int_equal(places[i], expected[i]);
        n += expected[i] == PLACES_DROPPED;
    }
    assert_int_equal(places[tokens * rule->k], -7);
    assert_int_equal(dropped, n);
    return n;
}

/* A group of three with two places. Expert 1 is the first choice of tokens 1 and 2, and the second of token 0. */
TEST(test_places_go_to_first_choices_first) {
    const struct places_rule rule = {.experts = 5, .k = 2, .group = 3, .places = 2};
    assert_int_equal(check_places(&rule, 3, (int32_t[]){4, 1, 1, 0, 1, 4}, (int32_t[]){0, -1, 0, 0, 1, 1}), 1);
}

TEST(test_places_go_to_lower_positions_first) {
    const struct places_rule rule = {.experts = 4, .k = 1, .group = 8, .places = 2};
    const int32_t choices[8] = {0, 2, 0, 1, 0, 2, 0, 3}, expected[8] = {0, 0, 1, 0, -1, 1, -1, 0};
    assert_int_equal(check_places(&rule, 8, choices, expected), 2);
}

/* Two groups of four: places taken in the first group are free in the second. */
TEST(test_places_are_counted_in_each_group) {
    const struct places_rule rule = {.experts = 2, .k = 1, .group = 4, .places = 2};
    const int32_t choices[8] = {0, 0, 0, 1, 0, 1, 1, 1}, expected[8] = {0, 1, -1, 0, 0, 0, 1, -1};
    assert_int_equal(check_places(&rule, 8, choices, expected), 2);
    check_places(&rule, 4, choices, expected);                       /* one microbatch or two: same places */
    check_places(&rule, 4, choices + 4, expected + 4);
}

/* ---- the load loss ---- */
static double loss_of(const struct places_rule *rule, int64_t tokens, int64_t all, const double *logits) {
    int32_t choices[256];
    double loss = -1;
    for (int64_t t = 0; t < tokens; t++)
        assert_ok(places_choose(logits + t * rule->experts, rule->experts, rule->k, choices + t * rule->k));
    assert_ok(places_load_loss(rule, tokens, all, logits, choices, &loss));
    return loss;
}

/* P is (2/3, 1/3) or (1/3, 2/3). If three tokens of a group prefer expert 0, f = (3/4, 1/4), p = (7/12, 5/12), and
 * 2 sum f p = 13/12. If all four do, the loss is 2 x 2/3; if two do, 1. Means over both groups would give another
 * number. */
TEST(test_places_load_loss_is_a_sum_over_groups) {
    const struct places_rule rule = {.experts = 2, .k = 1, .group = 4, .places = 1};
    const double a = log(2), even[8] = {a, 0, 0, a, 0, a, a, 0};
    const double logits[16] = {a, 0, a, 0, a, 0, 0, a, a, 0, a, 0, a, 0, a, 0};
    assert_close(loss_of(&rule, 4, 4, even), 1, 1e-14);
    assert_close(loss_of(&rule, 4, 4, logits), 13.0 / 12, 1e-14);
    assert_close(loss_of(&rule, 4, 4, logits + 8), 4.0 / 3, 1e-14);
    assert_close(loss_of(&rule, 8, 8, logits), (13.0 / 12 + 4.0 / 3) / 2, 1e-14);
    assert_close(loss_of(&rule, 4, 8, logits) + loss_of(&rule, 4, 8, logits + 8), loss_of(&rule, 8, 8, logits), 1e-14);
}

/* ---- the project's router ---- */
enum { E = 6, T = 12, B = 2 };

static void run_router(struct op_case *c, const struct places_rule *rule, const double *logits) {
    op_case_start(c, &op_moe_route, 3);
    c->step.moe = (struct moe_rule){.experts = E, .k = rule->k, .group = rule->group, .places = rule->places, .aux = 1};
    c->settings.loss_weight = 1.0 / (B * T);
    op_case_input(c, op_type(FP64, "BTE", B, T, E));
    op_case_finish(c);
    memcpy(c->in[0].data, logits, B * T * E * sizeof *logits);
    op_case_run(c, ROW_FORWARD);
}

/* Logits are multiples of 1/4, so that there are many ties. */
static int compare_with_router(const struct places_rule *rule, uint64_t trial) {
    double logits[B * T * E], loss = -1;
    int32_t choices[B * T * E], places[B * T * E];
    int64_t dropped = -1, differ = 0;
    struct op_case c;
    for (int i = 0; i < B * T * E; i++) logits[i] = floor(8 * rng_uniform(14, trial, (uint64_t)i)) / 4;
    for (int t = 0; t < B * T; t++) assert_ok(places_choose(logits + t * E, E, rule->k, choices + t * rule->k));
    assert_ok(places_give(rule, B * T, choices, places, &dropped));
    assert_ok(places_load_loss(rule, B * T, B * T, logits, choices, &loss));
    run_router(&c, rule, logits);
    const int32_t *picks = c.out[1].data;
    const double *sums = c.out[2].data;
    for (int64_t i = 0; i < B * T * rule->k; i++)
        differ += picks[i] != (places[i] < 0 ? -1 - choices[i] : choices[i] * rule->places + places[i]);
    differ += fabs(sums[0] - loss) > 1e-13;
    differ += fabs(sums[2] - (double)dropped / (double)(B * T * rule->k)) > 1e-13;
    op_case_free(&c);
    return (int)differ;
}

TEST(test_places_are_those_of_the_router) {
    for (uint64_t trial = 0; trial < 60; trial++) {
        struct places_rule rule = {.experts = E, .k = 1 + (int64_t)trial % 3, .group = trial % 2 ? 4 : 6};
        assert_ok(places_per_expert(trial % 5 * 0.5, rule.group, rule.k, E, &rule.places));
        assert_int_equal(compare_with_router(&rule, trial), 0);
    }
}

TESTS(unit_test(test_places_are_rounded_up_and_at_most_the_group), unit_test(test_places_choose_the_largest_first),
      unit_test(test_places_leave_ties_to_the_lower_expert), unit_test(test_places_go_to_first_choices_first),
      unit_test(test_places_go_to_lower_positions_first), unit_test(test_places_are_counted_in_each_group),
      unit_test(test_places_load_loss_is_a_sum_over_groups), unit_test(test_places_are_those_of_the_router))
