/* ranks: 1  device: any */
#include "lib/ops/rope.h"
#include "lib/ops/test_op.h"
#include <math.h>

enum { B = 2, T = 7, H = 3 };
static int D = 6;

static void start(struct op_case *c) {
    op_case_start(c, &op_rope, 1);
    c->step.rope.theta = 100;
}
static void make_queries(struct op_case *c, enum dtype dtype) {
    start(c);
    op_case_input(c, op_type(dtype, "BTHD", B, T, H, D));
    op_case_finish(c);
}
static void make_keys(struct op_case *c, enum dtype dtype) {
    start(c);
    op_case_input(c, op_type(dtype, "BT2JD", B, T, 2, H, D));
    op_case_finish(c);
}

TEST(test_rope_gradient_is_the_slope) {
    op_case_check_gradients(make_queries);
    op_case_check_gradients(make_keys);
}

TEST(test_rope_in_every_precision) {
    op_case_check_precisions(make_queries, 3, 0);
    op_case_check_precisions(make_keys, 3, 0);
    op_case_check_aliases(make_queries);
    op_case_check_aliases(make_keys);
    op_case_check_threads(make_keys);
}

/* A key's point (1, 0) at position t becomes (cos, sin) of the angle; values are unchanged. */
static void check_formula(void) {
    struct op_case c;
    make_keys(&c, FP64);
    double *x = c.in[0].data, *y = c.out[0].data;
    for (int i = 0; i < B * T * 2 * H * D; i++) x[i] = i % D < D / 2;
    op_case_run(&c, ROW_FORWARD);
    for (int i = 0; i < B * T * 2 * H * D; i++) {
        int d = i % D, pair = d % (D / 2), value = i / D / H % 2, t = i / D / H / 2 % T;
        double angle = t * pow(100, -2.0 * pair / D);
        assert_close(y[i], value ? x[i] : d < D / 2 ? cos(angle) : sin(angle), 1e-15);
    }
    op_case_free(&c);
}

/* Six pairs: the numbers of transformers' _compute_*_parameters, in fp64. */
TEST(test_rope_slows_as_the_reference) {
    const struct { struct rope_rule rule; double speed[6]; } cases[] = {
        {{100, ROPE_LINEAR, 4, 0, 0, 0, 0, 0, false},
         {0.25, 0.11603972084031947, 0.053860867250797098, 0.025, 0.01160397208403195, 0.0053860867250797081}},
        {{100, ROPE_LLAMA3, 8, 64, 1, 4, 0, 0, false},
         {1, 0.46415888336127786, 0.10198935907779744, 0.013042256043820465, 0.0058019860420159752,
          0.002693043362539854}},
        {{100, ROPE_YARN, 4, 64, 0.5, 8, 0, 0, false},
         {1, 0.37712909273103828, 0.13465216812699274, 0.043750000000000004, 0.01160397208403195,
          0.0053860867250797081}},
        {{100, ROPE_YARN_UNTRUNCATED, 4, 64, 0.5, 8, 0, 0, false},
         {1, 0.39812020005154414, 0.1400605454656379, 0.04424829579325597, 0.01160397208403195, 0.005386086725079708}},
        {{100, ROPE_YARN_UNTRUNCATED, 4, 4, 1, 32, 0, 0, false},
         {1, 0.46415888336127786, 0.2154434690031884, 0.1, 0.0464158883361278, 0.021544346900318832}},
        {{100, ROPE_YARN, 4, 4, 1, 32, 0, 0, false},
         {1, 0.11603972084031947, 0.053860867250797098, 0.025, 0.01160397208403195, 0.0053860867250797081}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double speed[6];
        rope_speeds(&cases[i].rule, 6, speed);
        for (int k = 0; k < 6; k++) assert_close(speed[k] / cases[i].speed[k], 1, 1e-14);
    }
}

/* Cosines and sines have the factor in both directions. */
TEST(test_rope_attention_multiplies) {
    struct op_case c, scaled;
    make_queries(&c, FP64);
    make_queries(&scaled, FP64);
    scaled.step.rope.attention = 1.25;
    op_case_run_all(&c);
    op_case_run_all(&scaled);
    for (int i = 0; i < B * T * H * D; i++) {
        assert_close(((double *)scaled.out[0].data)[i], 1.25 * ((double *)c.out[0].data)[i], 1e-14);
        assert_close(((double *)scaled.din[0].data)[i], 1.25 * ((double *)c.din[0].data)[i], 1e-14);
    }
    op_case_free(&c);
    op_case_free(&scaled);
}

/* 6 channels are three pairs; 140 are more pairs than a thread processes at a time. */
TEST(test_rope_is_its_formula) {
    for (D = 6; D <= 140; D += 134) check_formula();
    D = 6;
}

/* The purpose of rope: the product of a query and a key depends on their distance alone. */
TEST(test_rope_products_depend_on_the_distance) {
    struct op_case c;
    make_queries(&c, FP64);
    double *x = c.in[0].data, *y = c.out[0].data;
    for (int t = 1; t < T; t++) memcpy(x + t * H * D, x, sizeof *x * H * D);
    op_case_run(&c, ROW_FORWARD);
    double apart_2[T];
    for (int t = 0; t + 2 < T; t++) {
        apart_2[t] = 0;
        for (int d = 0; d < D; d++) apart_2[t] += y[t * H * D + d] * y[(t + 2) * H * D + D + d];
        assert_close(apart_2[t], apart_2[0], 1e-14);
    }
    op_case_free(&c);
}

/* A shard of positions (in two runs, as cp's are) and of heads has the results of the whole. */
TEST(test_rope_shard_is_turned_as_the_whole) {
    struct op_case whole, part;
    struct type x = op_type(FP64, "BTHD", B, 8, H, D);
    start(&whole);
    op_case_input(&whole, x);
    op_case_finish(&whole);
    x.shape.axis[1] = axis_zigzag('T', 8, 2, 0);
    x = op_type_part(x, 'H', 1, 2);
    start(&part);
    op_case_input(&part, x);
    op_case_finish(&part);
    op_case_run_all(&whole);
    op_case_run_all(&part);
    assert_close(tensor_error(&part.out[0], &whole.out[0]), 0, 0);
    assert_close(tensor_error(&part.din[0], &whole.din[0]), 0, 0);
    op_case_free(&whole);
    op_case_free(&part);
}

/* Neighbors, and halves, behind the first channels; of heads, or of a key for all. */
static struct rope_rule turning;
static void make_turned(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_rope, 1);
    c->step.rope = turning;
    op_case_input(c, turning.scaling ? op_type(dtype, "BTS", B, T, 3 + 8) : op_type(dtype, "BTHD", B, T, H, 3 + 8));
    op_case_finish(c);
}
TEST(test_rope_of_neighbors_has_its_slope_on_the_device) {
    for (int i = 0; i < 4; i++) {
        turning = (struct rope_rule){100, i / 2 ? ROPE_LINEAR : ROPE_UNSCALED, 4, 16, 0.5, 8, 1.2, 3, i % 2};
        op_case_check_gradients(make_turned);
        op_case_check_aliases(make_turned);
        op_case_check_siblings(make_turned, 4, 0);
    }
}

TEST(test_rope_refuses_half_a_pair) {
    struct type x = op_type(FP32, "BTHD", 1, 2, 2, 5), out[MAX_OUT];
    struct step step = {.op = &op_rope, .n_in = 1, .n_out = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}};
    assert_fails(op_rope.shape(&call, out), E_CONFIG, "rope", "even", "D 5");
}

TESTS(unit_test(test_rope_gradient_is_the_slope), unit_test(test_rope_in_every_precision),
      unit_test(test_rope_is_its_formula), unit_test(test_rope_products_depend_on_the_distance),
      unit_test(test_rope_slows_as_the_reference), unit_test(test_rope_attention_multiplies),
      unit_test(test_rope_of_neighbors_has_its_slope_on_the_device),
      unit_test(test_rope_shard_is_turned_as_the_whole), unit_test(test_rope_refuses_half_a_pair))
