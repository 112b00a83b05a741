/* ranks: 1  device: cpu */
/* e^x in float against the C library's in double. (The fp64 tests of softmax and gelu check e^x in double.) */
#define ELEM fp32
#define ELEM_fp32
#include "lib/ops/exp.h"
#include "tests/test.h"
#include <math.h>

/* The bound: two units in the last place of the result, 2^-22 of it. */
TEST(test_exp_is_right_to_two_units) {
    for (float x = EXP_LOWEST; x <= EXP_HIGHEST; x += 0.000977f) {
        double expected = exp((double)x);
        assert_close(real_exp(x) / expected, 1, ldexp(1, -22));
    }
    for (float x = 1; x > 1e-30f; x *= 0.7f) assert_close(real_exp(-x) / exp(-(double)x), 1, ldexp(1, -22));
}

TEST(test_exp_of_special_numbers) {
    assert_close(real_exp(0), 1, 0);
    assert_close(real_exp(-0.0f), 1, 0);
    assert_close(real_exp(-INFINITY), 0, 0);
    assert_close(real_exp(-1e30f), 0, 0);
    assert_close(real_exp(nextafterf(EXP_LOWEST, -100)), 0, 0);
    assert_true(real_exp(EXP_LOWEST) > 0);
    assert_true(isnan(real_exp(NAN)));
}

TESTS(unit_test(test_exp_is_right_to_two_units), unit_test(test_exp_of_special_numbers))
