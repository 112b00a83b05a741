/* ranks: 1 */
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/test_op.h"
#include "lib/ops/moe/moe_logits.h"

/* Two samples of four tokens in groups of two; three experts with two places; each token chooses two experts. */
enum { B = 2, T = 4, E = 3, K = 2, G = 2, S = 2, ROWS = B * T / G * S };
static const struct moe_rule rule = {.experts = E, .k = K, .group = G, .places = S};
static int n_channels = 5;

/* expert * S + place for each choice of a group's two tokens; the last choice is dropped. */
static const int32_t PICKS[G * K] = {2 * S + 0, 0 * S + 0, 2 * S + 1, -1 - 0};

static void set_picks(const struct tensor *picks) {
    for (int i = 0; i < B * T * K; i++) ((int32_t *)picks->data)[i] = PICKS[i % (G * K)];
}

static void make_dispatch(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_moe_dispatch, 1);
    c->step.moe = rule;
    c->step.parts = 1;
    op_case_input(c, op_type(dtype, "BTC", B, T, n_channels));
    op_case_input(c, op_type(INT32, "BTk", B, T, K));
    op_case_finish(c);
    set_picks(&c->in[1]);
}

static void make_combine(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_moe_combine, 1);
    c->step.moe = rule;
    op_case_input(c, op_type(dtype, "EPRC", E, 1, ROWS, n_channels));
    op_case_input(c, op_type(INT32, "BTk", B, T, K));
    op_case_input(c, op_type(dtype_accumulator(dtype), "BTk", B, T, K));
    op_case_finish(c);
    set_picks(&c->in[1]);
}

TEST(test_dispatch_and_combine_have_the_slope_as_gradient) {
    n_channels = 5;
    op_case_check_gradients(make_dispatch);
    op_case_check_gradients(make_combine);
    n_channels = 77;
    op_case_check_gradients(make_combine);
}

/* The longest sums: two terms; 77 channels for the gates' gradients. */
TEST(test_dispatch_and_combine_in_every_precision) {
    n_channels = 77;
    op_case_check_precisions(make_dispatch, 2, 0);
    op_case_check_precisions(make_combine, 77, 0);
    op_case_check_threads(make_dispatch);
    op_case_check_threads(make_combine);
}

/* Each row by hand: place p of group g is row 2 g + p of an expert. */
TEST(test_tokens_lie_at_their_places_and_others_are_zero) {
    struct op_case c;
    n_channels = 1;
    make_dispatch(&c, FP64);
    double *x = c.in[0].data, *out = c.out[0].data;
    for (int t = 0; t < B * T; t++) x[t] = 1 + t;
    op_case_run(&c, ROW_FORWARD);
    for (int row = 0; row < ROWS; row++) {
        int first = row / S * G, place = row % S;
        assert_close(out[0 * ROWS + row], place == 0 ? x[first] : 0, 0);
        assert_close(out[1 * ROWS + row], 0, 0);
        assert_close(out[2 * ROWS + row], x[first + place], 0);
    }
    op_case_free(&c);
}

/* A token whose choices are all dropped gets zeros back, and its gates have zero gradients. */
TEST(test_a_token_without_a_place_is_zero) {
    struct op_case c;
    n_channels = 3;
    make_combine(&c, FP32);
    int32_t *picks = c.in[1].data;
    picks[0] = -1 - 2, picks[1] = -1 - 0;
    op_case_run_all(&c);
    for (int i = 0; i < 3; i++) assert_close(((float *)c.out[0].data)[i], 0, 0);
    for (int j = 0; j < K; j++) assert_close(((float *)c.din[2].data)[j], 0, 0);
    for (int i = 0; i < 3; i++) assert_close(((float *)c.din[0].data)[(2 * ROWS + 0) * 3 + i], 0, 0);
    op_case_free(&c);
}

TEST(test_dispatch_and_combine_refuse) {
    struct type x = op_type(FP32, "BTC", B, T, 2), picks = op_type(INT32, "BTk", B, T + 1, K), out[MAX_OUT];
    struct step step = {.op = &op_moe_dispatch, .n_in = 2, .n_out = 1, .parts = 1, .moe = rule};
    struct call call = {.step = &step, .in = {{NULL, &x}, {NULL, &picks}}};
    assert_fails(op_moe_dispatch.shape(&call, out), E_CONFIG, "moe_dispatch", "other tokens", "T 4");
    struct type y = op_type(FP32, "EPRC", E, 2, ROWS, 2), gates = op_type(FP32, "BTk", B, T, K);
    picks = op_type(INT32, "BTk", B, T, K);
    step.op = &op_moe_combine, step.n_in = 3;
    call.in[0].type = &y, call.in[2].type = &gates;
    assert_fails(op_moe_combine.shape(&call, out), E_CONFIG, "moe_combine", "places of this rank's tokens", "P 2");
    y = op_type(BF16, "EPRC", E, 1, ROWS, 2), gates = op_type(BF16, "BTk", B, T, K);
    assert_fails(op_moe_combine.shape(&call, out), E_CONFIG, "moe_combine", "gates", "full precision");
}

static int n_channels_moe_logits = 5;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_moe_logits, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 7, n_channels_moe_logits));
    op_case_weight(c, op_type(dtype_accumulator(dtype), "EC", 3, n_channels_moe_logits));
    op_case_finish(c);
}

static void make_with_bias(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_moe_logits, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 7, n_channels_moe_logits));
    op_case_weight(c, op_type(dtype_accumulator(dtype), "EC", 3, n_channels_moe_logits));
    op_case_weight(c, op_type(dtype_accumulator(dtype), "E", 3));
    op_case_finish(c);
}

TEST(test_moe_logits_gradient_is_the_slope) {
    n_channels_moe_logits = 5;
    op_case_check_gradients(make);
    n_channels_moe_logits = 77;
    op_case_check_gradients(make);
    op_case_check_gradients(make_with_bias);
}

/* The longest sum is over 77 channels. */
TEST(test_moe_logits_in_every_precision) {
    n_channels_moe_logits = 77;
    op_case_check_precisions(make, 77, 0);
    op_case_check_precisions(make_with_bias, 78, 0);
    op_case_check_threads(make_with_bias);
}

/* In bf16 the product of two numbers of 8 bits is exact in fp32, and is not rounded to bf16. */
TEST(test_moe_logits_are_not_rounded_to_the_models_precision) {
    struct op_case c;
    n_channels_moe_logits = 2;
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
    struct type b = op_type(FP32, "E", 4);
    w = op_type(FP32, "EC", 3, 8), step.n_weight = 2, call.weight[1].type = &b;
    assert_fails(op_moe_logits.shape(&call, out), E_CONFIG, "moe_logits", "one number per expert");
}

TESTS(unit_test(test_dispatch_and_combine_have_the_slope_as_gradient),
      unit_test(test_dispatch_and_combine_in_every_precision),
      unit_test(test_tokens_lie_at_their_places_and_others_are_zero), unit_test(test_a_token_without_a_place_is_zero),
      unit_test(test_dispatch_and_combine_refuse), unit_test(test_moe_logits_gradient_is_the_slope),
      unit_test(test_moe_logits_in_every_precision), unit_test(test_moe_logits_are_not_rounded_to_the_models_precision),
      unit_test(test_moe_logits_refuses))
