/* ranks: 1  device: any */
#include "lib/ops/swiglu.h"
#include "lib/ops/test_op.h"

static int n_hidden = 5;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_swiglu, 1);
    op_case_input(c, op_type(dtype, "BT2K", 2, 7, 2, n_hidden));
    op_case_finish(c);
}

TEST(test_swiglu_gradient_is_the_slope) {
    n_hidden = 5;
    op_case_check_gradients(make);
    n_hidden = 77;
    op_case_check_gradients(make);
}

/* No sum, but about 16 roundings in the exponential and the products. */
TEST(test_swiglu_in_every_precision) {
    n_hidden = 77;
    op_case_check_precisions(make, 16, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
}

/* Against the formula in long double; the first half is the gate. */
TEST(test_swiglu_is_its_formula) {
    struct op_case c;
    enum { N = 2001 };
    op_case_start(&c, &op_swiglu, 1);
    op_case_input(&c, op_type(FP64, "BT2K", 1, 1, 2, N));
    op_case_finish(&c);
    double *x = c.in[0].data, *y = c.out[0].data, *dy = c.dout[0].data, *dx = c.din[0].data;
    for (int i = 0; i < N; i++) x[i] = (i - 1000) * 0.02, x[N + i] = 1.5, dy[i] = 1;
    op_case_run_all(&c);
    for (int i = 0; i < N; i++) {
        long double a = (i - 1000) * 0.02, s = 1 / (1 + expl(-a));
        assert_close(y[i], (double)(1.5L * a * s), 1e-14 * fmax(1, fabs((double)a)));
        assert_close(dx[i], (double)(1.5L * s * (1 + a * (1 - s))), 1e-14);
        assert_close(dx[N + i], (double)(a * s), 1e-14 * fmax(1, fabs((double)a)));
    }
    op_case_free(&c);
}

TEST(test_swiglu_far_out_is_the_product_or_zero) {
    struct op_case c;
    n_hidden = 3;
    make(&c, FP32);
    float *x = c.in[0].data, *y = c.out[0].data;
    x[0] = 1e6f, x[1] = -1e6f, x[2] = NAN, x[3] = x[4] = x[5] = 2;
    op_case_run(&c, ROW_FORWARD);
    assert_close(y[0], 2e6, 0);
    assert_close(y[1], 0, 0);
    assert_true(y[2] != y[2]);
    op_case_free(&c);
}

TEST(test_swiglu_refuses_what_has_no_halves) {
    struct type x = op_type(FP32, "BTK", 1, 2, 8), out[MAX_OUT];
    struct step step = {.op = &op_swiglu, .n_in = 1, .n_out = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}};
    assert_fails(op_swiglu.shape(&call, out), E_CONFIG, "swiglu", "two halves", "T 2");
}

TESTS(unit_test(test_swiglu_gradient_is_the_slope), unit_test(test_swiglu_in_every_precision),
      unit_test(test_swiglu_is_its_formula), unit_test(test_swiglu_far_out_is_the_product_or_zero),
      unit_test(test_swiglu_refuses_what_has_no_halves))
