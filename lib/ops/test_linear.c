/* ranks: 1  device: any */
#include "lib/ops/linear.h"
#include "lib/device/arena.h"
#include "lib/ops/test_op.h"
#include <stdlib.h>

/* x (2,7,5) with W (3,H 3,D 3,C 5) and a bias: the qkv projection. */
static void make_qkv(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_linear, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 7, 5));
    op_case_weight(c, op_type(dtype, "3HDC", 3, 3, 3, 5));
    op_case_weight(c, op_type(dtype, "3HD", 3, 3, 3));
    op_case_finish(c);
}
/* x (2,1,3,3) with W (5,3,3), no bias: the projection after attention, summed over two axes. */
static void make_proj(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_linear, 1);
    op_case_input(c, op_type(dtype, "BTHD", 2, 1, 3, 3));
    op_case_weight(c, op_type(dtype, "CHD", 5, 3, 3));
    op_case_finish(c);
}
/* More rows, inputs and outputs than one block of the 16-bit product (384), and no multiple of 384. */
static void make_large(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_linear, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 211, 397));
    op_case_weight(c, op_type(dtype, "KC", 401, 397));
    op_case_weight(c, op_type(dtype, "K", 401));
    op_case_finish(c);
}
/* 70 rows and 264 outputs: two chunks of rows and, in 16 bits, two strips of columns, the second cut short
 * (linear_cuda.cu). */
static void make_strips(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_linear, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 35, 3));
    op_case_weight(c, op_type(dtype, "KC", 264, 3));
    op_case_weight(c, op_type(dtype, "K", 264));
    op_case_finish(c);
}

TEST(test_linear_gradient_is_the_slope) {
    op_case_check_gradients(make_qkv);
    op_case_check_gradients(make_proj);
}

TEST(test_linear_is_its_formula) {
    struct op_case c;
    make_qkv(&c, FP64);
    op_case_run_all(&c);
    const double *x = c.in[0].data, *w = c.weight[0].data, *b = c.weight[1].data, *y = c.out[0].data;
    assert_int_equal(c.out_type[0].shape.n_axes, 5);
    for (int r = 0; r < 14; r++)
        for (int k = 0; k < 27; k++) {
            double sum = b[k];
            for (int i = 0; i < 5; i++) sum += x[r * 5 + i] * w[k * 5 + i];
            assert_close(y[r * 27 + k], sum, 1e-14);
        }
    op_case_free(&c);
}

/* The longest sums: 27 outputs (dx) and 14 rows (dW); 422 rows in the large case. Backward reads no rounded result. */
TEST(test_linear_in_every_precision) {
    op_case_check_precisions(make_qkv, 27, 0);
    op_case_check_precisions(make_proj, 9, 0);
    op_case_check_precisions(make_large, 422, 0);
}

TEST(test_linear_on_the_device_is_its_sibling_on_the_cpu) {
    op_case_check_siblings(make_qkv, 27, 0);
    op_case_check_siblings(make_proj, 9, 0);
    op_case_check_siblings(make_strips, 264, 0);
}

/* More rows than 256 chunks of 64, so that no row may be left out. A sum of n terms of size 1 has an error below n^2
 * 2^-53 = 3e-8. */
TEST(test_linear_bias_gradient_adds_every_row) {
    struct op_case c;
    op_case_start(&c, &op_linear, 1);
    op_case_input(&c, op_type(FP64, "BTC", 1, 16500, 1));
    op_case_weight(&c, op_type(FP64, "KC", 6, 1));
    op_case_weight(&c, op_type(FP64, "K", 6));
    op_case_finish(&c);
    op_case_run(&c, ROW_BACKWARD_WEIGHT);
    for (int k = 0; k < 6; k++) {
        double sum = 0;
        for (int r = 0; r < 16500; r++) sum += ((double *)c.dout[0].data)[r * 6 + k];
        assert_close(((double *)c.dweight[1].data)[k], sum, 3e-8);
    }
    op_case_free(&c);
}

/* Two shards of the heads give the two halves of y and of dW. Their dx are partial sums, which add up to the whole
 * dx. */
TEST(test_linear_shards_make_the_whole) {
    struct op_case whole, part[2];
    op_case_start(&whole, &op_linear, 1);
    op_case_input(&whole, op_type(FP64, "BTC", 2, 3, 5));
    op_case_weight(&whole, op_type(FP64, "3HDC", 3, 4, 3, 5));
    op_case_finish(&whole);
    op_case_run_all(&whole);
    for (int i = 0; i < 2; i++) {
        op_case_start(&part[i], &op_linear, 1);
        op_case_input(&part[i], op_type(FP64, "BTC", 2, 3, 5));
        op_case_weight(&part[i], op_type_part(op_type(FP64, "3HDC", 3, 4, 3, 5), 'H', 2 * i, 2));
        op_case_finish(&part[i]);
        op_case_run_all(&part[i]);
        assert_int_equal(part[i].out_type[0].shape.axis[3].first, 2 * i);
        assert_close(tensor_error(&part[i].out[0], &whole.out[0]), 0, 1e-14);
        assert_close(tensor_error(&part[i].dweight[0], &whole.dweight[0]), 0, 1e-14);
        if (i > 0) tensor_subtract(&whole.din[0], &part[0].din[0]);
    }
    assert_close(tensor_error(&part[1].din[0], &whole.din[0]), 0, 1e-13);
    for (int i = 0; i < 2; i++) op_case_free(&part[i]);
    op_case_free(&whole);
}

TEST(test_linear_refuses_shapes_that_do_not_meet) {
    struct type x = op_type(FP32, "BTC", 1, 2, 8), w = op_type(FP32, "KC", 3, 4), out[MAX_OUT];
    struct step step = {.op = &op_linear, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_linear.shape(&call, out), E_CONFIG, "linear", "C 8", "C 4");
    w = op_type(FP32, "CK", 8, 3);
    assert_fails(op_linear.shape(&call, out), E_CONFIG, "linear", "differ");
    w = op_type(BF16, "KC", 3, 8);
    assert_fails(op_linear.shape(&call, out), E_CONFIG, "linear", "bf16", "fp32");
    w = op_type_part(op_type(FP32, "KC", 3, 16), 'C', 8, 8);
    assert_fails(op_linear.shape(&call, out), E_CONFIG, "linear", "C 8/16@8");
}

/* Without watched memory, a GPU's stream must not clear 8 bytes before every product. */
TEST(test_linear_touches_the_end_of_its_scratch_only_where_that_is_watched) {
    if (test_device()->kind != DEVICE_CUDA) skip();
    struct op_case c;
    op_case_start(&c, &op_linear, 1);
    op_case_input(&c, op_type(FP32, "BTC", 1, 2, 8));
    op_case_weight(&c, op_type(FP32, "KC", 3, 8));
    op_case_finish(&c);
    for (int watched = 0; watched < 2; watched++) {
        struct call call = op_case_call(&c, ROW_FORWARD);
        call.on = DEVICE_CUDA;
        call.watched = watched;
        int64_t words = op_work(&call, ROW_FORWARD) / 8;
        uint64_t *work = malloc((size_t)words * 8 + 2 * ARENA_ALIGN);
        work[words - 1] = 12345;
        call.work = work;
        assert_ok(op_case_run_call(&call, ROW_FORWARD));
        assert_int_equal(work[words - 1], watched ? 0 : 12345);
        free(work);
    }
    op_case_free(&c);
}

TESTS(unit_test(test_linear_gradient_is_the_slope),
      unit_test(test_linear_touches_the_end_of_its_scratch_only_where_that_is_watched),
      unit_test(test_linear_is_its_formula),
      unit_test(test_linear_in_every_precision), unit_test(test_linear_on_the_device_is_its_sibling_on_the_cpu),
      unit_test(test_linear_bias_gradient_adds_every_row), unit_test(test_linear_shards_make_the_whole),
      unit_test(test_linear_refuses_shapes_that_do_not_meet))
