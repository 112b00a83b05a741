/* ranks: 1  device: cpu */
#include "driver/train/spike.h"
#include "tests/test.h"

TEST(test_too_few_losses_have_no_limit) {
    struct spike s = {0};
    for (int i = 0; i < SPIKE_FIRST; i++) {
        assert_true(isinf(spike_limit(&s, 6)));
        spike_note(&s, i);
    }
    assert_true(isfinite(spike_limit(&s, 6)));
}

/* Losses 1 and 3 in turn: the mean is 2, and the sum of n squared deviations is n. */
TEST(test_the_limit_is_so_many_standard_deviations_above_the_mean) {
    struct spike s = {0};
    for (int i = 0; i < 20; i++) spike_note(&s, i % 2 ? 3 : 1);
    assert_close(spike_limit(&s, 5), 2 + 5 * sqrt(20.0 / 19), 1e-14);
}

TEST(test_only_the_last_losses_count) {
    struct spike s = {0};
    for (int i = 0; i < 100; i++) spike_note(&s, 1000);
    for (int i = 0; i < SPIKE_WINDOW; i++) spike_note(&s, i % 2 ? 3 : 1);
    assert_close(spike_limit(&s, 1), 2 + sqrt(64.0 / 63), 1e-14);
}

TESTS(unit_test(test_too_few_losses_have_no_limit),
      unit_test(test_the_limit_is_so_many_standard_deviations_above_the_mean),
      unit_test(test_only_the_last_losses_count))
