/* ranks: 1  device: any
 *
 * Both backward rows of one step in one kernel (fusion.h): against the CPU, bit for bit against the two separate
 * kernels, and with its memory traffic counted. The pair runs as one op, `both`, so that test_op.h's checks of an op
 * check the pair. */
#define SIMT_WEAK                     /* a build without tests/simt counts nothing */
#include "lib/ops/fusion.h"

#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/test_op.h"
#include "tests/simt/simt_test.h"
#include <string.h>

static bool on_cpu(void) { return test_device()->kind == DEVICE_CPU; }

/* ---- an op whose backward_input is both rows ---- */

static const struct op *of;           /* the op whose backward rows `both` runs */
static struct op both;
static bool apart;                    /* run the two separate kernels */
static int64_t joined;

static enum status run_both(const struct call *call) {
    struct step step = *call->step;
    step.op = of;
    struct call weight = *call, input = *call;
    weight.step = input.step = &step;
    memset(weight.din, 0, sizeof weight.din);
    memset(input.dweight, 0, sizeof input.dweight);
    for (int i = 0; i < step.n_weight; i++) weight.weight[i].data = NULL;
    input.work = NULL;
    fused_kernel *run = apart ? NULL : fusion_of(&weight, &input, ROW_BACKWARD_WEIGHT);
    joined += run != NULL;
    if (run) return run(&weight, &input);
    TRY(op_run(&weight, ROW_BACKWARD_WEIGHT));
    return op_run(&input, ROW_BACKWARD_INPUT);
}

static int64_t work_of_both(const struct call *call, enum row_kind kind) {
    struct step step = *call->step;
    struct call c = *call;
    step.op = of, c.step = &step;
    return op_work(&c, kind == ROW_BACKWARD_INPUT ? ROW_BACKWARD_WEIGHT : kind);
}

static void both_of(const struct op *op) {
    of = op;
    both = *op;
    both.all_in_backward = true, both.has_backward_weight = false;
    both.needs.bi_in |= op->needs.bw_in, both.needs.bi_out |= op->needs.bw_out;
    both.work = work_of_both;
    for (int on = 0; on < N_DEVICES; on++)
        for (enum dtype d = FP64; d <= FP16; d++)
            if (op->kernels[on][d].backward_weight)
                both.kernels[on][d] = (struct op_kernels){op->kernels[on][d].forward, run_both, NULL};
}

/* ---- cases ---- */

static struct { int B, T, C; double p; bool store, grads_fp32; } s;

static void make_layernorm(struct op_case *c, enum dtype d) {
    both_of(&op_layernorm);
    op_case_start(c, &both, 2);
    op_case_input(c, op_type(d, "BTC", s.B, s.T, s.C));
    for (int i = 0; i < 2; i++) {
        op_case_weight(c, op_type(d, "C", s.C));
        if (s.grads_fp32) c->dweight_type[i].dtype = dtype_accumulator(d);
    }
    op_case_finish(c);
}

/* A shard of T, with dropout. din[1] has its own memory. */
static void make_residual(struct op_case *c, enum dtype d) {
    struct type x = op_type_part(op_type(d, "BTC", s.B, s.T + 5, s.C), 'T', 3, s.T);
    both_of(&op_bias_dropout_residual);
    op_case_start(c, &both, op_n_out(&op_bias_dropout_residual, s.store));
    c->step.dropout.p = s.p;
    for (int i = 0; i < 2; i++) op_case_input(c, x);
    op_case_weight(c, op_type(d, "C", s.C));
    if (s.grads_fp32) c->dweight_type[0].dtype = dtype_accumulator(d);
    op_case_finish(c);
}

/* ---- checks ---- */

static void backward(struct op_case *c, bool two_kernels) {
    apart = two_kernels;
    op_case_run(c, ROW_FORWARD);
    op_case_run(c, ROW_BACKWARD_INPUT);
    op_case_run(c, ROW_BACKWARD_INPUT);      /* adds to the weights' gradients */
    apart = false;
}

static void check_bits(op_case_maker *make, enum dtype d) {
    struct op_case one, two;
    make(&one, d), make(&two, d);
    backward(&one, false), backward(&two, true);
    for (int i = 0; i < one.step.n_in; i++)
        assert_memory_equal(one.din[i].data, two.din[i].data, (size_t)type_bytes(&one.in_type[i]));
    for (int i = 0; i < one.step.n_weight; i++)
        assert_memory_equal(one.dweight[i].data, two.dweight[i].data, (size_t)type_bytes(&one.dweight_type[i]));
    op_case_free(&one), op_case_free(&two);
}

static struct simt_counts traffic(op_case_maker *make, enum dtype d) {
    struct op_case c;
    make(&c, d);
    op_case_run(&c, ROW_FORWARD);
    simt_count(1);
    op_case_run(&c, ROW_BACKWARD_INPUT);
    struct simt_counts counts = simt_counts();
    simt_count(0);
    op_case_free(&c);
    return counts;
}
static bool counted(void) { return simt_checked && simt_checked() && test_device()->kind == DEVICE_CUDA; }

/* ---- layernorm ---- */

/* 300 rows are several slices, the last not full, and more rows than a block takes at once. 3 and 77 are no whole
 * groups, so the separate kernels run. One warp takes rows of 768 columns in 16 bits, and of 512 in fp32. */
TEST(test_layernorm_backward_is_the_two_kernels) {
    static const int lengths[] = {3, 8, 77, 264};
    if (on_cpu()) skip();
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int i = 0; i < 5; i++) {
            s.C = i < 4 ? lengths[i] : dtype_size(d) == 2 ? 768 : 512;
            s.B = 2, s.T = i < 4 ? 150 : 21, s.grads_fp32 = i % 2;
            int64_t before = joined;
            check_bits(make_layernorm, d);
            assert_int_equal(joined - before, 2);
        }
}

/* Rows of 1048 columns take two warps or more, and are too long in fp64. Rows of 2056 take three warps in 16 bits, so a
 * block takes fewer rows; they are too long in fp32. Rows of 3080 are too long. */
TEST(test_layernorm_backward_is_the_cpus) {
    static const int lengths[] = {3, 72, 77, 1048, 2056, 3080};
    for (int i = 0; i < 6; i++) {
        s.B = 1, s.T = i < 3 ? 74 : 37, s.C = lengths[i], s.grads_fp32 = false;
        op_case_check_siblings(make_layernorm, fmax(74, s.C), 0);
    }
    s.C = 72;
    op_case_check_aliases(make_layernorm);
}

/* The kernel reads x, dy and a row's statistics once, and g twice, in each of the row's two passes. Counts are in
 * sectors of 32 bytes. */
TEST(test_layernorm_backward_reads_once) {
    if (!counted()) skip();
    s.B = 2, s.T = 64, s.C = 768, s.grads_fp32 = false;
    int64_t rows = s.B * s.T, row = s.C * 2 / 32, slices = rows / 32, partial = slices * 2 * s.C * 4 / 32;
    struct simt_counts c = traffic(make_layernorm, BF16);
    assert_true(c.load.units <= rows * (2 * row + 2 * row + 3) + partial + 4 * s.C * 2 / 32);
    assert_true(c.store.units <= rows * row + 2 * partial + 4 * s.C * 2 / 32);   /* partial sums: half sectors */
}

/* ---- bias_dropout_residual ---- */

TEST(test_residual_backward_is_the_two_kernels) {
    static const int lengths[] = {3, 77, 264};
    if (on_cpu()) skip();
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int i = 0; i < 9; i++) {
            s.B = 2, s.T = 150, s.C = lengths[i % 3], s.grads_fp32 = i % 2;
            s.p = i / 3 ? 0.3 : 0, s.store = i / 3 == 2;
            int64_t before = joined;
            check_bits(make_residual, d);
            assert_int_equal(joined - before, 2);
        }
    s.p = 0, s.store = false;
}

TEST(test_residual_backward_is_the_cpus) {
    s.B = 2, s.T = 37, s.p = 0.3, s.grads_fp32 = false;
    for (s.C = 72; s.C <= 77; s.C += 5) op_case_check_siblings(make_residual, 74, 0);
    op_case_check_aliases(make_residual);
    s.p = 0;
}

/* The kernel reads dy once for dx, dresidual and db. */
TEST(test_residual_backward_reads_once) {
    if (!counted()) skip();
    s.B = 2, s.T = 64, s.C = 768, s.grads_fp32 = false;
    int64_t rows = s.B * s.T, row = s.C * 2 / 32, slices = rows / 32, partial = slices * s.C * 4 / 32;
    struct simt_counts c = traffic(make_residual, BF16);
    assert_true(c.load.units <= rows * row + partial + 2 * s.C * 2 / 32);
    assert_true(c.store.units <= 2 * rows * row + 8 * partial + 2 * s.C * 2 / 32);   /* partial sums: one a store */
}

TESTS(unit_test(test_layernorm_backward_is_the_two_kernels), unit_test(test_layernorm_backward_is_the_cpus),
      unit_test(test_layernorm_backward_reads_once), unit_test(test_residual_backward_is_the_two_kernels),
      unit_test(test_residual_backward_is_the_cpus), unit_test(test_residual_backward_reads_once))
