/* ranks: 1  device: cpu */
#include "planner/explain.h"
#include "planner/why.h"
#include "tests/test.h"

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

TESTS(unit_test(test_parts_add_up_to_the_step), unit_test(test_a_layout_loses_by_its_largest_difference),
      unit_test(test_a_layout_is_tied_within_the_models_error))
