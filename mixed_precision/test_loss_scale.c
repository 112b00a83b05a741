/* ranks: 1  device: cpu */
#include "mixed_precision/loss_scale.h"
#include "tests/test.h"

/* First scale 16, min 2, window 3, hysteresis 2. 'x' is an overflow, '.' a clean step; `after` is the scale after each
 * event. Computed by hand from Megatron-LM's rule. */
struct sequence { const char *says, *events; double after[12]; };
static const struct sequence sequences[] = {
    {"a window doubles", ".......", {16, 16, 32, 32, 32, 64, 64}},
    {"one overflow is forgiven", "x...", {16, 16, 16, 32}},
    {"the second halves, with clean steps in between", "x.x", {16, 16, 8}},
    {"then every one does", "xxxx", {16, 8, 4, 2}},
    {"used-up credit stays so until a window is clean", "xx.x..x", {16, 8, 8, 4, 4, 4, 2}},
    {"a clean window restores it", "xx...x.x", {16, 8, 8, 8, 16, 16, 16, 8}},
    {"an overflow starts the window again", "..x...", {16, 16, 16, 16, 16, 32}},
    {"never below the minimum", "xxxxxx", {16, 8, 4, 2, 2, 2}},
    {"it comes back from there", "xxxxx...", {16, 8, 4, 2, 2, 2, 2, 4}},
};

TEST(test_loss_scale_follows_the_table_of_events) {
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        struct loss_scale s;
        loss_scale_init(&s, 16, 2, 3, 2);
        for (int k = 0; sequences[i].events[k]; k++) {
            loss_scale_update(&s, sequences[i].events[k] == 'x');
            if (s.scale != sequences[i].after[k])
                fail_msg("%s: after event %d of %s the scale is %g, not %g", sequences[i].says, k + 1,
                         sequences[i].events, s.scale, sequences[i].after[k]);
        }
    }
}

TEST(test_loss_scale_stops_at_a_minimum_that_is_no_power_of_two) {
    struct loss_scale s;
    loss_scale_init(&s, 16, 3, 3, 1);
    for (int i = 0; i < 4; i++) loss_scale_update(&s, true);
    assert_true(s.scale == 3);
}

TEST(test_fixed_loss_scale_never_moves) {
    struct loss_scale s;
    loss_scale_init_fixed(&s, 1000, 2);
    for (int i = 0; i < 3; i++) loss_scale_update(&s, true);
    for (int i = 0; i < 5000; i++) loss_scale_update(&s, false);
    assert_true(s.scale == 1000);
}

/* The number of overflows in a row until the scale is stuck; at most 99. */
static int overflows_until_stuck(struct loss_scale *s) {
    for (int n = 1; n < 100; n++) {
        loss_scale_update(s, true);
        if (loss_scale_is_stuck(s)) return n;
    }
    return 99;
}

TEST(test_loss_scale_is_stuck_after_overflows_at_the_minimum_only) {
    struct loss_scale s;
    loss_scale_init(&s, 16, 2, 3, 2);
    /* overflows: 16, 16->8, 8->4, 4->2; all others are at the minimum */
    assert_int_equal(overflows_until_stuck(&s), 4 + LOSS_SCALE_PATIENCE * 2);
    loss_scale_init_fixed(&s, 16, 2);
    assert_int_equal(overflows_until_stuck(&s), LOSS_SCALE_PATIENCE * 2);
}

TEST(test_a_clean_step_frees_a_stuck_loss_scale) {
    struct loss_scale s;
    loss_scale_init_fixed(&s, 16, 2);
    for (int i = 0; i < 100; i++) {
        loss_scale_update(&s, i % 4 != 3);                           /* never four overflows in a row */
        assert_false(loss_scale_is_stuck(&s));
    }
}

/* A checkpoint may hold more clean steps than the window of the run that resumes it. */
TEST(test_a_loss_scale_grows_in_a_window_that_became_smaller) {
    struct loss_scale s;
    loss_scale_init(&s, 16, 2, 3, 2);
    s.n_clean = 7;
    loss_scale_update(&s, false);
    assert_true(s.scale == 32 && s.n_clean == 0);
}

TESTS(unit_test(test_loss_scale_follows_the_table_of_events),
      unit_test(test_loss_scale_stops_at_a_minimum_that_is_no_power_of_two),
      unit_test(test_fixed_loss_scale_never_moves),
      unit_test(test_loss_scale_is_stuck_after_overflows_at_the_minimum_only),
      unit_test(test_a_clean_step_frees_a_stuck_loss_scale),
      unit_test(test_a_loss_scale_grows_in_a_window_that_became_smaller))
