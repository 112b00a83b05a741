/* ranks: 1 */
#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/linear.h"
#include "lib/ops/test_op.h"
#include <math.h>

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

/* ---- Packed rows: a box of six rows from each of two senders. One of the three experts gets no rows. ---- */

enum { BOXES = 2, EXPERTS = 3, BOX = 6, PACKED_C = 7, PACKED_K = 4 };
static const int32_t COUNTS[BOXES * EXPERTS] = {2, 0, 3, 0, 0, 6};

static void make_boxes(struct op_case *c, enum dtype dtype, int box, int C, int K, const int32_t *counts) {
    op_case_start(c, &op_expert_linear, 1);
    op_case_input(c, op_type(dtype, "EPRC", 1, BOXES, box, C));
    op_case_input(c, op_type(INT32, "EPN", 1, BOXES, EXPERTS));
    op_case_weight(c, op_type(dtype, "EFC", EXPERTS, K, C));
    op_case_finish(c);
    memcpy(c->in[1].data, counts, sizeof COUNTS);
}
static void make_packed(struct op_case *c, enum dtype dtype) { make_boxes(c, dtype, BOX, PACKED_C, PACKED_K, COUNTS); }

/* More than a tile of rows, of channels and of units; one expert's rows end where a tile does. */
static const int32_t MANY[BOXES * EXPERTS] = {65, 0, 64, 0, 4, 130};
static void make_many(struct op_case *c, enum dtype dtype) { make_boxes(c, dtype, 140, 72, 136, MANY); }
static void make_many_odd(struct op_case *c, enum dtype dtype) { make_boxes(c, dtype, 140, 67, 133, MANY); }

TEST(test_packed_expert_linear_gradient_is_the_slope) {
    op_case_check_gradients(make_packed);
}

TEST(test_packed_expert_linear_in_every_precision) {
    op_case_check_precisions(make_packed, 2 * BOX, 0);
    op_case_check_precisions(make_many, 2 * 140, 0);
    op_case_check_threads(make_many);
}

TEST(test_packed_expert_linear_equals_its_sibling) {
    op_case_check_siblings(make_packed, 2 * BOX, 0);
    op_case_check_siblings(make_many, 2 * 140, 0);
    op_case_check_siblings(make_many_odd, 2 * 140, 0);
}

/* Sums of small integers are exact in any order. */
static void make_integers(const struct tensor *x) {
    float *at = x->data;
    for (int64_t i = 0; i < type_n(x->type); i++) at[i] = (float)lrint(4 * at[i]);
}

/* Packed rows and their gradients have the bits of padded ones (on a GPU with integers, because other kernels multiply
 * packed rows). A row that no rank sent is zero. So is the gradient of an expert without rows, if it is set. */
TEST(test_packed_rows_have_the_bits_of_padded_ones) {
    struct op_case c, padded;
    make_packed(&c, FP32);
    for (int i = 0; i < 3 && test_device()->kind == DEVICE_CUDA; i++)
        make_integers((const struct tensor *[]){&c.in[0], &c.weight[0], &c.dout[0]}[i]);
    op_case_start(&padded, &op_expert_linear, 1);
    op_case_input(&padded, op_type(FP32, "EPRC", EXPERTS, BOXES, BOX, PACKED_C));
    op_case_weight(&padded, op_type(FP32, "EFC", EXPERTS, PACKED_K, PACKED_C));
    op_case_finish(&padded);
    memcpy(padded.weight[0].data, c.weight[0].data, (size_t)type_bytes(c.weight[0].type));
    float *x = c.in[0].data, *dy = c.dout[0].data;
    for (int box = 0; box < BOXES; box++)
        for (int e = 0, row = box * BOX; e < EXPERTS; row += COUNTS[box * EXPERTS + e], e++) {
            memcpy((float *)padded.in[0].data + (e * BOXES + box) * BOX * PACKED_C, x + row * PACKED_C,
                   (size_t)COUNTS[box * EXPERTS + e] * PACKED_C * sizeof *x);
            memcpy((float *)padded.dout[0].data + (e * BOXES + box) * BOX * PACKED_K, dy + row * PACKED_K,
                   (size_t)COUNTS[box * EXPERTS + e] * PACKED_K * sizeof *dy);
        }
    for (int i = 0; i < 3 * PACKED_K * PACKED_C; i++) ((float *)c.dweight[0].data)[i] = NAN;
    c.settings.fresh = WEIGHT(0);
    op_case_run(&c, ROW_BACKWARD_WEIGHT);
    op_case_run(&c, ROW_FORWARD);
    op_case_run(&c, ROW_BACKWARD_INPUT);
    op_case_run(&padded, ROW_FORWARD);
    op_case_run(&padded, ROW_BACKWARD_INPUT);
    for (int box = 0; box < BOXES; box++) {
        int row = box * BOX;
        for (int e = 0; e < EXPERTS; row += COUNTS[box * EXPERTS + e], e++) {
            assert_memory_equal((float *)c.out[0].data + row * PACKED_K,
                                (float *)padded.out[0].data + (e * BOXES + box) * BOX * PACKED_K,
                                (size_t)COUNTS[box * EXPERTS + e] * PACKED_K * sizeof *x);
            assert_memory_equal((float *)c.din[0].data + row * PACKED_C,
                                (float *)padded.din[0].data + (e * BOXES + box) * BOX * PACKED_C,
                                (size_t)COUNTS[box * EXPERTS + e] * PACKED_C * sizeof *x);
        }
        const float *y = c.out[0].data, *dx = c.din[0].data;
        for (int i = row * PACKED_K; i < (box + 1) * BOX * PACKED_K; i++) assert_close(y[i], 0, 0);
        for (int i = row * PACKED_C; i < (box + 1) * BOX * PACKED_C; i++) assert_close(dx[i], 0, 0);
    }
    for (int i = 0; i < PACKED_K * PACKED_C; i++)
        assert_close(((float *)c.dweight[0].data)[PACKED_K * PACKED_C + i], 0, 0);
    op_case_free(&padded);
    op_case_free(&c);
}

TEST(test_packed_expert_linear_costs_full_boxes) {
    struct op_case c;
    make_packed(&c, FP32);
    struct call call = op_case_call(&c, ROW_FORWARD);
    assert_close(op_cost(&call, ROW_FORWARD).flops, 2.0 * BOXES * BOX * PACKED_C * PACKED_K, 0);
    assert_close(op_cost(&call, ROW_BACKWARD_WEIGHT).flops, 2.0 * BOXES * BOX * PACKED_C * PACKED_K, 0);
    op_case_free(&c);
}

/* ---- biases ---- */

static void make_bias(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_expert_bias, 1);
    op_case_input(c, op_type(dtype, "EPR2F", 3, 2, 5, 2, n_out));
    op_case_weight(c, op_type(dtype, "E2F", 3, 2, n_out));
    op_case_finish(c);
}
static void make_packed_bias(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_expert_bias, 1);
    op_case_input(c, op_type(dtype, "EPRC", 1, BOXES, BOX, n_out));
    op_case_input(c, op_type(INT32, "EPN", 1, BOXES, EXPERTS));
    op_case_weight(c, op_type(dtype, "EC", EXPERTS, n_out));
    op_case_finish(c);
    memcpy(c->in[1].data, COUNTS, sizeof COUNTS);
}

TEST(test_expert_bias_gradient_is_the_slope) {
    n_out = 5;
    op_case_check_gradients(make_bias);
    op_case_check_gradients(make_packed_bias);
}

TEST(test_expert_bias_in_every_precision) {
    for (n_out = 5; n_out <= 152; n_out += 147) {
        op_case_check_precisions(make_bias, 10, 0);
        op_case_check_precisions(make_packed_bias, 2 * BOX, 0);
        op_case_check_siblings(make_bias, 10, 0);
        op_case_check_siblings(make_packed_bias, 2 * BOX, 0);
        op_case_check_aliases(make_packed_bias);
        op_case_check_threads(make_packed_bias);
    }
}

/* A row has its expert's bias, one of no expert has none. */
TEST(test_packed_rows_have_their_experts_bias) {
    struct op_case c;
    n_out = 3;
    make_packed_bias(&c, FP64);
    op_case_run(&c, ROW_FORWARD);
    const double *x = c.in[0].data, *y = c.out[0].data, *b = c.weight[0].data;
    static const int expert[BOXES * BOX] = {0, 0, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2};
    for (int i = 0; i < BOXES * BOX * 3; i++)
        assert_close(y[i], expert[i / 3] < 3 ? x[i] + b[expert[i / 3] * 3 + i % 3] : x[i], 0);
    op_case_free(&c);
}

TEST(test_expert_bias_refuses) {
    struct type x = op_type(FP32, "EPRC", 4, 1, 2, 8), b = op_type(FP32, "EC", 2, 8), out[MAX_OUT];
    struct step step = {.op = &op_expert_bias, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &b}}};
    assert_fails(op_expert_bias.shape(&call, out), E_CONFIG, "expert_bias", "one vector per expert", "E 4", "E 2");
    b = op_type(FP32, "EC", 4, 7);
    assert_fails(op_expert_bias.shape(&call, out), E_CONFIG, "expert_bias", "as wide as a row");
    b = op_type(BF16, "EC", 4, 8);
    assert_fails(op_expert_bias.shape(&call, out), E_CONFIG, "expert_bias", "different dtypes");
}

TESTS(unit_test(test_expert_bias_gradient_is_the_slope), unit_test(test_expert_bias_in_every_precision),
      unit_test(test_packed_rows_have_their_experts_bias), unit_test(test_expert_bias_refuses),
      unit_test(test_expert_linear_gradient_is_the_slope), unit_test(test_expert_linear_in_every_precision),
      unit_test(test_each_expert_is_a_linear_layer), unit_test(test_expert_linear_counts_every_place),
      unit_test(test_expert_linear_refuses), unit_test(test_packed_expert_linear_gradient_is_the_slope),
      unit_test(test_packed_expert_linear_in_every_precision), unit_test(test_packed_expert_linear_equals_its_sibling),
      unit_test(test_packed_rows_have_the_bits_of_padded_ones), unit_test(test_packed_expert_linear_costs_full_boxes))
