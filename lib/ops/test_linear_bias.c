/* ranks: 1  device: any
 *
 * The gradients of a linear layer's weights and bias by one product (linear_cuda.c), a fusion of one row. The op
 * `fused` has this kernel in place of its own, so that test_op.h's checks of an op check the fusion. */
#define SIMT_WEAK
#include "lib/ops/fusion.h"

#include "lib/ops/linear.h"
#include "lib/ops/test_op.h"
#include "tests/simt/simt_test.h"
#include <stdlib.h>
#include <string.h>

static bool on_cpu(void) { return test_device()->kind == DEVICE_CPU; }

static struct op fused;
static int64_t n_fused;

static enum status backward_weight(const struct call *call) {
    struct step step = *call->step;
    struct call c = *call;
    step.op = &op_linear, c.step = &step;
    fused_kernel *run = fusion_of(&c, NULL, ROW_BACKWARD_WEIGHT);
    n_fused += run != NULL;
    return run ? run(&c, &c) : op_run(&c, ROW_BACKWARD_WEIGHT);
}

static struct { int R, C, K; bool bias, grads_fp32; } s;
static void make_of(struct op_case *c, const struct op *op, enum dtype d) {
    op_case_start(c, op, 1);
    op_case_input(c, op_type(d, "BTC", 2, s.R, s.C));
    op_case_weight(c, op_type(d, "KC", s.K, s.C));
    if (s.bias) op_case_weight(c, op_type(d, "K", s.K));
    for (int i = 0; s.grads_fp32 && i < c->step.n_weight; i++) c->dweight_type[i].dtype = dtype_accumulator(d);
    op_case_finish(c);
}
static void make(struct op_case *c, enum dtype d) {
    fused = op_linear;
    for (int on = 0; on < N_DEVICES; on++)
        for (enum dtype e = FP64; e <= FP16; e++)
            if (op_linear.kernels[on][e].backward_weight) fused.kernels[on][e].backward_weight = backward_weight;
    make_of(c, &fused, d);
}

/* Gradients that are set and that are added to, in the weights' dtype and in the accumulator's. Sizes that 8 divides,
 * and others. */
TEST(test_a_bias_gradient_of_the_product_is_the_cpus) {
    for (int how = 0; how < 4; how++) {
        s.R = 11, s.C = how & 1 ? 13 : 24, s.K = how & 2 ? 21 : 40, s.bias = true;
        int64_t before = n_fused;
        op_case_check_siblings(make, 40, 0);
        assert_true(on_cpu() || n_fused > before);
    }
    s.bias = false;
    op_case_check_siblings(make, 40, 0);
}

/* The gradient of two equal microbatches is exactly twice that of one, in bf16 and in fp32. */
TEST(test_bias_gradients_of_microbatches_add_up) {
    if (on_cpu()) skip();
    for (int wide = 0; wide < 2; wide++) {
        struct op_case one, two;
        s.R = 11, s.C = 24, s.K = 40, s.bias = true, s.grads_fp32 = wide;
        make(&one, BF16), make(&two, BF16);
        op_case_run(&one, ROW_BACKWARD_WEIGHT);
        op_case_run(&two, ROW_BACKWARD_WEIGHT);
        op_case_run(&two, ROW_BACKWARD_WEIGHT);
        for (int i = 0; i < s.K; i++) {
            enum dtype d = wide ? FP32 : BF16;
            double x = dtype_get(one.dweight[1].data, d, i), y = dtype_get(two.dweight[1].data, d, i);
            assert_true(x != 0);
            assert_close(y, 2 * x, 0);
        }
        op_case_free(&one), op_case_free(&two);
    }
    s.grads_fp32 = false;
}

/* If the library offers no algorithm, the bits are those of our own kernels. */
TEST(test_a_bias_gradient_without_the_epilogue) {
    if (on_cpu() || !simt_checked) skip();
    struct op_case one, two;
    s.R = 5, s.C = 16, s.K = 9, s.bias = true;   /* sizes of no other test: a plan is kept */
    make(&one, BF16), make_of(&two, &op_linear, BF16);
    setenv("SIMT_EPILOGUES", "0", 1);
    op_case_run(&one, ROW_BACKWARD_WEIGHT);
    unsetenv("SIMT_EPILOGUES");
    op_case_run(&two, ROW_BACKWARD_WEIGHT);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(one.dweight[i].data, two.dweight[i].data, (size_t)type_bytes(&one.dweight_type[i]));
    op_case_free(&one), op_case_free(&two);
}

/* dy is not read again: the kernel after the product reads only K sums and the K numbers of db. */
TEST(test_a_bias_gradient_reads_no_rows) {
    struct op_case c;
    if (on_cpu() || !simt_checked || !simt_checked()) skip();
    s.R = 64, s.C = 24, s.K = 512, s.bias = true;
    make(&c, BF16);
    simt_count(1);
    op_case_run(&c, ROW_BACKWARD_WEIGHT);
    struct simt_counts counts = simt_counts();
    simt_count(0);
    assert_int_equal(counts.load.units, 2 * s.K * 2 / 32);
    op_case_free(&c);
}

TESTS(unit_test(test_a_bias_gradient_of_the_product_is_the_cpus),
      unit_test(test_bias_gradients_of_microbatches_add_up), unit_test(test_a_bias_gradient_without_the_epilogue),
      unit_test(test_a_bias_gradient_reads_no_rows))
