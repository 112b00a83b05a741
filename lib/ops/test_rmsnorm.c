/* ranks: 1  device: any */
#include "lib/ops/rmsnorm.h"
#include "lib/ops/test_op.h"

static int n_channels = 5;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_rmsnorm, 2);
    op_case_input(c, op_type(dtype, "BTC", 2, 7, n_channels));
    op_case_weight(c, op_type(dtype, "C", n_channels));
    op_case_finish(c);
}

/* 5 channels are fewer than a vector; 77 are whole vectors and a remainder, and more than one block of columns. */
TEST(test_rmsnorm_gradient_is_the_slope) {
    n_channels = 5;
    op_case_check_gradients(make);
    n_channels = 77;
    op_case_check_gradients(make);
}

/* Sums over C = 77 channels and R = 14 rows. stored = 0: rstd is kept in fp32, so backward reads no result rounded to
 * the element type. */
TEST(test_rmsnorm_in_every_precision) {
    n_channels = 77;
    op_case_check_precisions(make, 77, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
}

/* By hand: a row of 3 and -4 has the mean square 12.5. */
TEST(test_rmsnorm_is_its_formula) {
    struct op_case c;
    n_channels = 2;
    make(&c, FP64);
    double *x = c.in[0].data, *g = c.weight[0].data, *y = c.out[0].data, *rstd = c.out[1].data;
    x[0] = 3, x[1] = -4, g[0] = 2, g[1] = 0.5;
    op_case_run(&c, ROW_FORWARD);
    assert_close(rstd[0], 1 / sqrt(12.5 + 1e-5), 1e-15);
    assert_close(y[0], 6 / sqrt(12.5 + 1e-5), 1e-15);
    assert_close(y[1], -2 / sqrt(12.5 + 1e-5), 1e-15);
    op_case_free(&c);
}

TEST(test_rmsnorm_refuses_a_sharded_row) {
    struct type x = op_type_part(op_type(FP32, "BTC", 1, 2, 8), 'C', 4, 4), w = op_type(FP32, "C", 8), out[MAX_OUT];
    struct step step = {.op = &op_rmsnorm, .n_in = 1, .n_out = 2, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_rmsnorm.shape(&call, out), E_CONFIG, "rmsnorm", "sharded", "C 4/8@4");
    x = op_type(FP32, "BTC", 1, 2, 4);
    assert_fails(op_rmsnorm.shape(&call, out), E_CONFIG, "rmsnorm", "C 4", "C 8");
}

TESTS(unit_test(test_rmsnorm_gradient_is_the_slope), unit_test(test_rmsnorm_in_every_precision),
      unit_test(test_rmsnorm_is_its_formula), unit_test(test_rmsnorm_refuses_a_sharded_row))
