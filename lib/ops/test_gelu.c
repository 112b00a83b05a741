/* ranks: 1  device: any */
#include "lib/ops/gelu.h"
#include "lib/ops/test_op.h"

static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_gelu, 1);
    op_case_input(c, op_type(dtype, "BTK", 2, 7, 5));
    op_case_finish(c);
}

TEST(test_gelu_gradient_is_the_slope) {
    op_case_check_gradients(make);
}

/* No sum, but about 16 roundings in the cubic, the exponential and the quotient. |2u| < 16 magnifies those in the
 * exponent. */
TEST(test_gelu_in_every_precision) {
    op_case_check_precisions(make, 16, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
}

/* Against the formula with the C library's tanh in long double, over the range where x s is neither x nor 0. */
TEST(test_gelu_fp64_is_accurate) {
    struct op_case c;
    op_case_start(&c, &op_gelu, 1);
    op_case_input(&c, op_type(FP64, "BTK", 1, 1, 4001));
    op_case_finish(&c);
    double *x = c.in[0].data, *y = c.out[0].data, *dy = c.dout[0].data, *dx = c.din[0].data;
    for (int i = 0; i < 4001; i++) x[i] = (i - 2000) * 0.005, dy[i] = 1;
    op_case_run_all(&c);
    for (int i = 0; i < 4001; i++) {
        long double v = x[i], k = 0.79788456080286535588L, th = tanhl(k * (v + 0.044715L * v * v * v));
        long double slope = 0.5L * (1 + th) + 0.5L * v * (1 - th * th) * k * (1 + 3 * 0.044715L * v * v);
        assert_close(y[i], (double)(0.5L * v * (1 + th)), 1e-15 * fmax(1, fabs(x[i])));
        assert_close(dx[i], (double)slope, 2e-15);
    }
    op_case_free(&c);
}

TEST(test_gelu_far_out_is_the_identity_or_zero) {
    struct op_case c;
    make(&c, FP32);
    float *x = c.in[0].data, *y = c.out[0].data, *dx = c.din[0].data, *dy = c.dout[0].data;
    x[0] = 1e6f, x[1] = -1e6f, x[2] = NAN, x[3] = 0;
    op_case_run_all(&c);
    assert_close(y[0], 1e6, 0);
    assert_close(y[1], 0, 0);
    assert_true(y[2] != y[2] && dx[2] != dx[2]);
    assert_close(y[3], 0, 0);
    assert_close(dx[0], dy[0], 0);
    assert_close(dx[1], 0, 0);
    op_case_free(&c);
}

TESTS(unit_test(test_gelu_gradient_is_the_slope), unit_test(test_gelu_in_every_precision),
      unit_test(test_gelu_fp64_is_accurate), unit_test(test_gelu_far_out_is_the_identity_or_zero))
