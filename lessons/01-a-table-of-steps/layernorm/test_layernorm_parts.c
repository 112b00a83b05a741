/* ranks: 1  device: cpu */
/* One row of four numbers, by hand: x = (1, 3, 3, 1) has mean 2 and variance 1, so without eps n = (-1, 1, 1, -1).
 * With g = (1, 2, 1, 2), b = (0, 0, 1, 1) and dy = (1, 0, 0, 0): d = dy g = (1, 0, 0, 0), sum d / C = 1/4,
 * sum d n / C = -1/4, dx = d - 1/4 + n / 4 = (1/2, 0, 0, -1/2). */
#include "lib/ops/layernorm.h"
#include "lib/ops/test_op.h"

static const double X[4] = {1, 3, 3, 1}, G[4] = {1, 2, 1, 2}, BIAS[4] = {0, 0, 1, 1}, DY[4] = {1, 0, 0, 0};

/* eps changes n by a relative 5e-6. */
static const double near_enough = 3e-5;

static void start(struct op_case *c) {
    op_case_start(c, &op_layernorm, 2);
    op_case_input(c, op_type(FP64, "BTC", 1, 1, 4));
    op_case_weight(c, op_type(FP64, "C", 4));
    op_case_weight(c, op_type(FP64, "C", 4));
    op_case_finish(c);
    for (int i = 0; i < 4; i++) {
        ((double *)c->in[0].data)[i] = X[i];
        ((double *)c->weight[0].data)[i] = G[i];
        ((double *)c->weight[1].data)[i] = BIAS[i];
        ((double *)c->dout[0].data)[i] = DY[i];
        for (int w = 0; w < 2; w++) ((double *)c->dweight[w].data)[i] = 10;
    }
    /* set the statistics, because the learner's forward may be missing */
    ((double *)c->out[1].data)[0] = 2;
    ((double *)c->out[1].data)[1] = 1 / sqrt(1 + LAYERNORM_EPS);
}

static void assert_row(const void *data, double a, double b, double c, double d) {
    const double *x = data, wanted[4] = {a, b, c, d};
    for (int i = 0; i < 4; i++) assert_close(x[i], wanted[i], near_enough);
}

TEST(test_layernorm_forward_by_hand) {
    struct op_case c;
    start(&c);
    op_case_run(&c, ROW_FORWARD);
    assert_row(c.out[0].data, -1, 2, 2, -1);
    assert_close(((double *)c.out[1].data)[0], 2, 1e-12);
    assert_close(((double *)c.out[1].data)[1], 1 / sqrt(1 + LAYERNORM_EPS), 1e-12);
    op_case_free(&c);
}

TEST(test_layernorm_input_gradient_by_hand) {
    struct op_case c;
    start(&c);
    op_case_run(&c, ROW_BACKWARD_INPUT);
    assert_row(c.din[0].data, 0.5, 0, 0, -0.5);
    op_case_free(&c);
}

TEST(test_layernorm_weight_gradients_by_hand) {
    struct op_case c;
    start(&c);
    op_case_run(&c, ROW_BACKWARD_WEIGHT);
    assert_row(c.dweight[0].data, 10 - 1, 10, 10, 10);
    assert_row(c.dweight[1].data, 10 + 1, 10, 10, 10);
    op_case_free(&c);
}

TESTS(unit_test(test_layernorm_forward_by_hand), unit_test(test_layernorm_input_gradient_by_hand),
      unit_test(test_layernorm_weight_gradients_by_hand))
