/* ranks: 1  device: any */
#include "lib/ops/gelu.h"
#include "lib/ops/relu.h"
#include "lib/ops/scale.h"
#include "lib/ops/test_op.h"

/* GELU by erf, ReLU and scale: ops of one input whose element is a function of that element alone. */
static void start(struct op_case *c, const struct op *op, enum dtype dtype) {
    op_case_start(c, op, 1);
    op_case_input(c, op_type(dtype, "BTK", 2, 7, 5));
}

static void make(struct op_case *c, enum dtype dtype) { start(c, &op_gelu_erf, dtype), op_case_finish(c); }

TEST(test_gelu_erf_gradient_is_the_slope) {
    op_case_check_gradients(make);
}

/* No sum, but about 16 roundings in erfc and the exponential. */
TEST(test_gelu_erf_in_every_precision) {
    op_case_check_precisions(make, 16, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
}

/* Against long double. The bound of y is relative; a form with 1 + erf would exceed it where Phi is small. */
TEST(test_gelu_erf_fp64_is_accurate) {
    struct op_case c;
    op_case_start(&c, &op_gelu_erf, 1);
    op_case_input(&c, op_type(FP64, "BTK", 1, 1, 4001));
    op_case_finish(&c);
    double *x = c.in[0].data, *y = c.out[0].data, *dy = c.dout[0].data, *dx = c.din[0].data;
    for (int i = 0; i < 4001; i++) x[i] = (i - 2000) * 0.005, dy[i] = 1;
    op_case_run_all(&c);
    for (int i = 0; i < 4001; i++) {
        long double v = x[i], phi = 0.5L * erfcl(-v / sqrtl(2)), density = expl(-v * v / 2) / sqrtl(2 * acosl(-1));
        assert_close(y[i], (double)(v * phi), 1e-13 * fabs((double)(v * phi)));
        assert_close(dx[i], (double)(phi + v * density), 2e-15);
    }
    op_case_free(&c);
}

/* ---- relu ---- */
static void make_relu(struct op_case *c, enum dtype dtype) { start(c, &op_relu, dtype), op_case_finish(c); }

TEST(test_relu_gradient_is_the_slope) {
    op_case_check_gradients(make_relu);
}

TEST(test_relu_in_every_precision) {
    op_case_check_precisions(make_relu, 1, 0);
    op_case_check_aliases(make_relu);
    op_case_check_threads(make_relu);
}

/* ---- scale ---- */
static void make_scale(struct op_case *c, enum dtype dtype) {
    start(c, &op_scale, dtype);
    c->step.scale.by = 0.375;
    op_case_finish(c);
}

TEST(test_scale_gradient_is_the_slope) {
    op_case_check_gradients(make_scale);
}

TEST(test_scale_in_every_precision) {
    op_case_check_precisions(make_scale, 1, 0);
    op_case_check_aliases(make_scale);
    op_case_check_threads(make_scale);
    op_case_check_siblings(make_scale, 1, 0);
}

TESTS(unit_test(test_gelu_erf_gradient_is_the_slope), unit_test(test_gelu_erf_in_every_precision),
      unit_test(test_gelu_erf_fp64_is_accurate), unit_test(test_relu_gradient_is_the_slope),
      unit_test(test_relu_in_every_precision), unit_test(test_scale_gradient_is_the_slope),
      unit_test(test_scale_in_every_precision))
