/* ranks: 1 */
#include "lib/ops/moe/moe_logits.h"
#include "lib/ops/test_op.h"

static int n_channels = 5;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_moe_logits, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 7, n_channels));
    op_case_weight(c, op_type(dtype_accumulator(dtype), "EC", 3, n_channels));
    op_case_finish(c);
}

TEST(test_moe_logits_gradient_is_the_slope) {
    n_channels = 5;
    op_case_check_gradients(make);
    n_channels = 77;
    op_case_check_gradients(make);
}

/* The longest sum is over 77 channels. */
TEST(test_moe_logits_in_every_precision) {
    n_channels = 77;
    op_case_check_precisions(make, 77, 0);
    op_case_check_threads(make);
}

/* In bf16 the product of two numbers of 8 bits is exact in fp32, and is not rounded to bf16. */
TEST(test_moe_logits_are_not_rounded_to_the_models_precision) {
    struct op_case c;
    n_channels = 2;
    make(&c, BF16);
    uint16_t *x = c.in[0].data;
    float *w = c.weight[0].data, *logits = c.out[0].data;
    x[0] = bf16_from_float(1), x[1] = bf16_from_float(1);
    w[0] = 1, w[1] = 0x1p-12f, w[2] = 1, w[3] = 0x1p-13f;
    op_case_run(&c, ROW_FORWARD);
    assert_close(logits[0], 1 + 0x1p-12, 0);
    assert_close(logits[1], 1 + 0x1p-13, 0);
    op_case_free(&c);
}

TEST(test_moe_logits_refuses) {
    struct type x = op_type(BF16, "BTC", 1, 2, 8), w = op_type(BF16, "EC", 3, 8), out[MAX_OUT];
    struct step step = {.op = &op_moe_logits, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_moe_logits.shape(&call, out), E_CONFIG, "moe_logits", "full precision", "bf16");
    w = op_type(FP32, "EC", 3, 7);
    assert_fails(op_moe_logits.shape(&call, out), E_CONFIG, "moe_logits", "row of channels", "C 7");
}

TESTS(unit_test(test_moe_logits_gradient_is_the_slope), unit_test(test_moe_logits_in_every_precision),
      unit_test(test_moe_logits_are_not_rounded_to_the_models_precision), unit_test(test_moe_logits_refuses))
