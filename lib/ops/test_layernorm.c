/* ranks: 1  device: any */
#include "lib/ops/layernorm.h"
#include "lib/ops/test_op.h"

static int n_channels = 5;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_layernorm, 2);
    op_case_input(c, op_type(dtype, "BTC", 2, 7, n_channels));
    op_case_weight(c, op_type(dtype, "C", n_channels));
    op_case_weight(c, op_type(dtype, "C", n_channels));
    op_case_finish(c);
}

/* 5 channels are fewer than a vector; 77 are whole vectors and a remainder, and more than one block of columns. */
TEST(test_layernorm_gradient_is_the_slope) {
    n_channels = 5;
    op_case_check_gradients(make);
    n_channels = 77;
    op_case_check_gradients(make);
}

/* Sums over C = 77 channels and R = 14 rows. stored = 0: both precisions have the same inputs, and statistics are kept
 * in fp32, so backward reads no result rounded to the element type. */
TEST(test_layernorm_in_every_precision) {
    n_channels = 77;
    op_case_check_precisions(make, 77, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
}

/* The mean is subtracted before squaring, so an offset of 1000 standard deviations loses only log2(1000) bits. */
TEST(test_layernorm_survives_a_large_mean) {
    n_channels = 77;
    struct op_case c, shifted;
    make(&c, FP32);
    make(&shifted, FP32);
    float *x = shifted.in[0].data, *plain = c.in[0].data;
    for (int64_t i = 0; i < type_n(&c.in_type[0]); i++) x[i] = plain[i] + 1000, plain[i] = x[i] - 1000;
    op_case_run(&c, ROW_FORWARD);
    op_case_run(&shifted, ROW_FORWARD);
    /* x - mean is about 1, and has an absolute error of log2(77) roundings of 1000. */
    assert_close(tensor_error(&shifted.out[0], &c.out[0]), 0, 1000 * 8 * dtype_roundoff(FP32));
    op_case_free(&c);
    op_case_free(&shifted);
}

/* A row of equal numbers has variance zero, and rstd is 1 / sqrt(eps). */
TEST(test_layernorm_adds_its_epsilon) {
    const double eps[] = {0, 1e-12, 0.25};
    for (int i = 0; i < 3; i++) {
        struct op_case c;
        n_channels = 4;
        make(&c, FP64);
        c.step.norm.eps = eps[i];
        for (int64_t k = 0; k < type_n(&c.in_type[0]); k++) ((double *)c.in[0].data)[k] = 2;
        op_case_run(&c, ROW_FORWARD);
        assert_close(((double *)c.out[1].data)[1] * sqrt(eps[i] ? eps[i] : 1e-5), 1, 1e-14);
        op_case_free(&c);
    }
}

TEST(test_layernorm_refuses_a_sharded_row) {
    struct type x = op_type_part(op_type(FP32, "BTC", 1, 2, 8), 'C', 4, 4), w = op_type(FP32, "C", 8), out[MAX_OUT];
    struct step step = {.op = &op_layernorm, .n_in = 1, .n_out = 2, .n_weight = 2};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}, {NULL, &w}}};
    assert_fails(op_layernorm.shape(&call, out), E_CONFIG, "layernorm", "sharded", "C 4/8@4");
    x = op_type(FP32, "BTC", 1, 2, 4);
    assert_fails(op_layernorm.shape(&call, out), E_CONFIG, "layernorm", "C 4", "C 8");
}

TESTS(unit_test(test_layernorm_gradient_is_the_slope), unit_test(test_layernorm_in_every_precision),
      unit_test(test_layernorm_survives_a_large_mean),
      unit_test(test_layernorm_adds_its_epsilon), unit_test(test_layernorm_refuses_a_sharded_row))
