/* ranks: 1  device: any */
#include "lib/ops/gelu.h"
#include "lib/ops/relu.h"
#include "lib/ops/scale.h"
#include "lib/ops/test_op.h"
#include "tests/test.h"
#include "lib/ops/pieces.h"
#include <stdlib.h>
#include <string.h>

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

TESTS(unit_test(test_gelu_erf_gradient_is_the_slope), unit_test(test_gelu_erf_in_every_precision),
      unit_test(test_gelu_erf_fp64_is_accurate), unit_test(test_relu_gradient_is_the_slope),
      unit_test(test_relu_in_every_precision), unit_test(test_scale_gradient_is_the_slope),
      unit_test(test_scale_in_every_precision), unit_test(test_pieces_are_transposed_whatever_their_length),
      unit_test(test_pieces_begin_at_any_address), unit_test(test_pieces_may_be_very_many),
      unit_test(test_pieces_of_nothing_are_nothing))
