/* ranks: 1  device: any */
#include "lib/ops/activation.h"
#include "lib/ops/gelu.h"
#include "lib/ops/pieces.h"
#include "lib/ops/scale.h"
#include "lib/ops/swiglu.h"
#include "lib/ops/test_op.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static int n_hidden = 5;
static const struct op *unit = &op_swiglu;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, unit, 1);
    if (unit == &op_swiglu_clamped) c->step.clamp.limit = 0.35;
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

TEST(test_geglu_gradient_is_the_slope) {
    unit = &op_geglu;
    for (n_hidden = 5; n_hidden <= 77; n_hidden += 72) op_case_check_gradients(make);
    unit = &op_swiglu;
}

/* As gelu: |2v| < 16 magnifies roundings in the exponent; and a product with u. */
TEST(test_geglu_in_every_precision) {
    unit = &op_geglu;
    n_hidden = 77;
    op_case_check_precisions(make, 20, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
    unit = &op_swiglu;
}

/* Against the formula in long double, with the C library's tanh; the first half is the gate. */
TEST(test_geglu_is_its_formula) {
    struct op_case c;
    enum { N = 2001 };
    op_case_start(&c, &op_geglu, 1);
    op_case_input(&c, op_type(FP64, "BT2K", 1, 1, 2, N));
    op_case_finish(&c);
    double *x = c.in[0].data, *y = c.out[0].data, *dy = c.dout[0].data, *dx = c.din[0].data;
    for (int i = 0; i < N; i++) x[i] = (i - 1000) * 0.01, x[N + i] = 1.5, dy[i] = 1;
    op_case_run_all(&c);
    for (int i = 0; i < N; i++) {
        long double a = x[i], k = 0.79788456080286535588L, th = tanhl(k * (a + 0.044715L * a * a * a));
        long double slope = 0.5L * (1 + th) + 0.5L * a * (1 - th * th) * k * (1 + 3 * 0.044715L * a * a);
        assert_close(y[i], (double)(0.75L * a * (1 + th)), 1e-14 * fmax(1, fabs((double)a)));
        assert_close(dx[i], (double)(1.5L * slope), 1e-14);
        assert_close(dx[N + i], (double)(0.5L * a * (1 + th)), 1e-14 * fmax(1, fabs((double)a)));
    }
    op_case_free(&c);
}

/* At the limit the slope jumps: no number is there. */
static void make_apart(struct op_case *c, enum dtype dtype) {
    make(c, dtype);
    double *x = c->in[0].data;
    for (int64_t i = 0; i < type_n(c->in[0].type); i++)
        if (fabs(fabs(x[i]) - 0.35) < 0.01) x[i] *= 1.1;
}

TEST(test_clamped_swiglu_gradient_is_the_slope) {
    unit = &op_swiglu_clamped;
    for (n_hidden = 5; n_hidden <= 77; n_hidden += 72) op_case_check_gradients(make_apart);
    unit = &op_swiglu;
}

TEST(test_clamped_swiglu_in_every_precision) {
    unit = &op_swiglu_clamped;
    n_hidden = 77;
    op_case_check_precisions(make, 16, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
    unit = &op_swiglu;
}

/* Against the formula in long double, inside of the limit, at it and outside: the gate has no lower limit. */
TEST(test_clamped_swiglu_is_its_formula) {
    struct op_case c;
    enum { N = 2001 };
    op_case_start(&c, &op_swiglu_clamped, 1);
    c.step.clamp.limit = 7;
    op_case_input(&c, op_type(FP64, "BT2K", 1, 1, 2, N));
    op_case_finish(&c);
    double *x = c.in[0].data, *y = c.out[0].data, *dy = c.dout[0].data, *dx = c.din[0].data;
    for (int i = 0; i < N; i++) x[i] = (i - 1000) * 0.014, x[N + i] = (i * 7 % N - 1000) * 0.014, dy[i] = 1;
    x[1500] = x[N + 1500] = 7, x[500] = x[N + 500] = -7;
    op_case_run_all(&c);
    for (int i = 0; i < N; i++) {
        long double a = fminl(x[i], 7), u = fminl(fmaxl(x[N + i], -7), 7), s = 1 / (1 + expl(-1.702L * a));
        assert_close(y[i], (double)(a * s * (u + 1)), 1e-13);
        assert_close(dx[i], x[i] > 7 ? 0 : (double)((u + 1) * s * (1 + 1.702L * a * (1 - s))), 1e-13);
        assert_close(dx[N + i], fabs(x[N + i]) > 7 ? 0 : (double)(a * s), 1e-13);
    }
    x[0] = x[N + 1] = NAN;
    op_case_run(&c, ROW_FORWARD);
    assert_true(y[0] != y[0] && y[1] != y[1]);
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

TEST(test_activations_by_name) {
    enum activation act;
    assert_ok(activation_choose(ACTIVATION_AUTO, ACTIVATION_GELU, ACTIVATIONS_PLAIN, "bert", &act));
    assert_ptr_equal(activation_op(act), &op_gelu_erf);
    assert_ok(activation_choose(ACTIVATION_GELU_TANH, ACTIVATION_GELU, ACTIVATIONS_PLAIN, "bert", &act));
    assert_ptr_equal(activation_op(act), &op_gelu);
    assert_ok(activation_choose(ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATIONS_PLAIN, "bert", &act));
    assert_ptr_equal(activation_op(act), &op_relu);
    for (int a = 1; a < N_ACTIVATIONS; a++) {
        bool gated = activation_op(a) == &op_swiglu || activation_op(a) == &op_geglu;
        assert_int_equal(activation_is_gated(a), gated);
        assert_int_equal(ACTIVATIONS_GATED >> a & 1, gated);
        assert_int_equal(ACTIVATIONS_PLAIN >> a & 1, !gated);
    }
    assert_fails(activation_choose(ACTIVATION_GEGLU, ACTIVATION_GELU, ACTIVATIONS_PLAIN, "bert", &act), E_CONFIG,
                 "activation=geglu: arch=bert has relu, gelu, gelu-tanh;");
    assert_fails(activation_choose(ACTIVATION_RELU, ACTIVATION_SWIGLU, ACTIVATIONS_GATED, "llama", &act), E_CONFIG,
                 "activation=relu: arch=llama has geglu, swiglu;");
}

TEST(test_swiglu_refuses_what_has_no_halves) {
    struct type x = op_type(FP32, "BTK", 1, 2, 8), out[MAX_OUT];
    struct step step = {.op = &op_swiglu, .n_in = 1, .n_out = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}};
    assert_fails(op_swiglu.shape(&call, out), E_CONFIG, "swiglu", "two halves", "T 2");
}

/* GELU by erf, ReLU and scale: ops of one input whose element is a function of that element alone. */
static void start(struct op_case *c, const struct op *op, enum dtype dtype) {
    op_case_start(c, op, 1);
    op_case_input(c, op_type(dtype, "BTK", 2, 7, 5));
}

static void make_elementwise(struct op_case *c, enum dtype dtype) { start(c, &op_gelu_erf, dtype), op_case_finish(c); }

TEST(test_gelu_erf_gradient_is_the_slope) {
    op_case_check_gradients(make_elementwise);
}

/* No sum, but about 16 roundings in erfc and the exponential. */
TEST(test_gelu_erf_in_every_precision) {
    op_case_check_precisions(make_elementwise, 16, 0);
    op_case_check_aliases(make_elementwise);
    op_case_check_threads(make_elementwise);
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

/* Pieces of many lengths and at many addresses, so that each word width is used. The memory around the result must
 * not change. */

enum { MARGIN = 64, MOST = 3 << 20 };

static unsigned char source[MOST], result[MOST], expected[MOST];

/* Check to[column][row] = from[row][column], with matrices that begin `at` bytes after a 16-byte boundary. */
static void check(int64_t rows, int64_t columns, int64_t bytes, int at) {
    const struct device *d = test_device();
    int64_t all = rows * columns * bytes, room = all + 2 * MARGIN;
    void *from, *to;
    assert_true(room <= MOST);
    memset(expected, 0xee, (size_t)room);
    for (int64_t i = 0; i < room; i++) source[i] = (unsigned char)(i * 7 + i / 251);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            memcpy(expected + MARGIN + at + (c * rows + r) * bytes, source + at + (r * columns + c) * bytes,
                   (size_t)bytes);
    memset(result, 0xee, (size_t)room);
    assert_ok(d->allocate(d, room, &from));
    assert_ok(d->allocate(d, room, &to));
    assert_ok(d->upload(d, from, source, room));
    assert_ok(d->upload(d, to, result, room));
    assert_ok(pieces_transpose(d, (char *)to + MARGIN + at, (char *)from + at, rows, columns, bytes));
    assert_ok(d->download(d, result, to, room));
    d->release(d, from, room);
    d->release(d, to, room);
    assert_memory_equal(result, expected, (size_t)room);
}

TEST(test_pieces_are_transposed_whatever_their_length) {
    static const int64_t lengths[] = {1, 2, 6, 8, 16, 30, 48, 64, 100, 1024, 4096, 4112, 10007, 20000};
    for (int i = 0; i < 14; i++) {
        check(3, 2, lengths[i], 0);
        check(2, 4, lengths[i], 0);
        check(1, 8, lengths[i], 0);
        check(5, 1, lengths[i], 0);
    }
}

TEST(test_pieces_begin_at_any_address) {
    static const int starts[] = {1, 2, 4, 8, 16, 20};
    for (int i = 0; i < 6; i++) {
        check(3, 2, 64, starts[i]);
        check(2, 3, 4098, starts[i]);
    }
}

/* More pieces than a grid has rows. */
TEST(test_pieces_may_be_very_many) {
    check(2500, 2, 16, 0);
}

TEST(test_pieces_of_nothing_are_nothing) {
    check(0, 4, 16, 0);
    check(3, 4, 0, 0);
}

TESTS(unit_test(test_swiglu_gradient_is_the_slope), unit_test(test_swiglu_in_every_precision),
      unit_test(test_geglu_gradient_is_the_slope), unit_test(test_geglu_in_every_precision),
      unit_test(test_geglu_is_its_formula), unit_test(test_swiglu_is_its_formula),
      unit_test(test_clamped_swiglu_gradient_is_the_slope), unit_test(test_clamped_swiglu_in_every_precision),
      unit_test(test_clamped_swiglu_is_its_formula), unit_test(test_swiglu_far_out_is_the_product_or_zero),
      unit_test(test_activations_by_name), unit_test(test_swiglu_refuses_what_has_no_halves),
      unit_test(test_gelu_erf_gradient_is_the_slope), unit_test(test_gelu_erf_in_every_precision),
      unit_test(test_gelu_erf_fp64_is_accurate), unit_test(test_relu_gradient_is_the_slope),
      unit_test(test_relu_in_every_precision), unit_test(test_scale_gradient_is_the_slope),
      unit_test(test_scale_in_every_precision), unit_test(test_pieces_are_transposed_whatever_their_length),
      unit_test(test_pieces_begin_at_any_address), unit_test(test_pieces_may_be_very_many),
      unit_test(test_pieces_of_nothing_are_nothing))
