/* ranks: 1 */
#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/linear.h"
#include "lib/ops/test_op.h"

static int n_out, gated;             /* set by each test before it makes a case */
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_expert_linear, 1);
    op_case_input(c, op_type(dtype, "EPRC", 3, 2, 5, 7));
    op_case_weight(c, gated ? op_type(dtype, "E2FC", 3, 2, n_out, 7) : op_type(dtype, "EFC", 3, n_out, 7));
    op_case_finish(c);
}

TEST(test_expert_linear_gradient_is_the_slope) {
    n_out = 4;
    for (gated = 0; gated < 2; gated++) op_case_check_gradients(make);
}

/* The longest sums: 10 rows, 7 channels, 2 x 70 hidden units. */
TEST(test_expert_linear_in_every_precision) {
    gated = 1, n_out = 70;
    op_case_check_precisions(make, 140, 0);
    op_case_check_threads(make);
}

/* Each expert is a linear layer of its own rows, bit for bit. */
TEST(test_each_expert_is_a_linear_layer) {
    struct op_case c, one;
    gated = 0, n_out = 4;
    make(&c, FP32);
    op_case_run_all(&c);
    op_case_start(&one, &op_linear, 1);
    op_case_input(&one, op_type(FP32, "BTC", 2, 5, 7));
    op_case_weight(&one, op_type(FP32, "FC", n_out, 7));
    op_case_finish(&one);
    for (int e = 0; e < 3; e++) {
        memcpy(one.in[0].data, (float *)c.in[0].data + e * 70, 70 * sizeof(float));
        memcpy(one.weight[0].data, (float *)c.weight[0].data + e * n_out * 7, (size_t)n_out * 7 * sizeof(float));
        memcpy(one.dout[0].data, (float *)c.dout[0].data + e * 10 * n_out, 10 * (size_t)n_out * sizeof(float));
        memset(one.dweight[0].data, 0, (size_t)n_out * 7 * sizeof(float));
        op_case_run_all(&one);
        assert_memory_equal(one.out[0].data, (float *)c.out[0].data + e * 10 * n_out, 10 * n_out * sizeof(float));
        assert_memory_equal(one.din[0].data, (float *)c.din[0].data + e * 70, 70 * sizeof(float));
        assert_memory_equal(one.dweight[0].data, (float *)c.dweight[0].data + e * n_out * 7,
                            n_out * 7 * sizeof(float));
    }
    op_case_free(&one);
    op_case_free(&c);
}

TEST(test_expert_linear_counts_every_place) {
    struct op_case c;
    gated = 0, n_out = 4;
    make(&c, FP32);
    struct call call = op_case_call(&c, ROW_FORWARD);
    assert_close(op_cost(&call, ROW_FORWARD).flops, 2.0 * 3 * 2 * 5 * 7 * n_out, 0);
    assert_close(op_cost(&call, ROW_BACKWARD_WEIGHT).flops, 2.0 * 3 * 2 * 5 * 7 * n_out, 0);
    op_case_free(&c);
}

TEST(test_expert_linear_refuses) {
    struct type x = op_type(FP32, "EPRC", 4, 1, 2, 8), w = op_type(FP32, "EFC", 2, 3, 8), out[MAX_OUT];
    struct step step = {.op = &op_expert_linear, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_expert_linear.shape(&call, out), E_CONFIG, "expert_linear", "other experts", "E 4", "E 2");
    w = op_type(FP32, "EC", 4, 8);
    assert_fails(op_expert_linear.shape(&call, out), E_CONFIG, "expert_linear", "no matrix per expert");
    w = op_type(BF16, "EFC", 4, 3, 8);
    assert_fails(op_expert_linear.shape(&call, out), E_CONFIG, "expert_linear", "different dtypes");
    struct type counts = op_type(INT32, "EPN", 1, 2, 4);
    x = op_type(BF16, "EPRC", 1, 1, 2, 8), step.n_in = 2, call.in[1].type = &counts;
    assert_fails(op_expert_linear.shape(&call, out), E_CONFIG, "expert_linear", "other senders or experts");
    counts = op_type(INT32, "EPN", 1, 1, 3);
    assert_fails(op_expert_linear.shape(&call, out), E_CONFIG, "expert_linear", "other senders or experts");
}

TESTS(unit_test(test_expert_linear_gradient_is_the_slope), unit_test(test_expert_linear_in_every_precision),
      unit_test(test_each_expert_is_a_linear_layer), unit_test(test_expert_linear_counts_every_place),
      unit_test(test_expert_linear_refuses))
