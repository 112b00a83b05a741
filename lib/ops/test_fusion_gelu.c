/* ranks: 1  device: any
 *
 * Backward of a linear layer and of the gelu before it in one product (linear_gelu_cuda.c). The pair runs as one op, y
 * = gelu(x) W^T, so that test_op.h's checks of an op check the pair. */
#define SIMT_WEAK
#include "lib/ops/fusion.h"

#include "lib/device/arena.h"
#include "lib/ops/gelu.h"
#include "lib/ops/linear.h"
#include "lib/ops/test_op.h"
#include "tests/simt/simt_test.h"
#include <stdlib.h>
#include <string.h>

static bool on_cpu(void) { return test_device()->kind == DEVICE_CPU; }

static bool in_place;                 /* gelu's dx overwrites its dy */
static bool apart;
static int64_t joined;

/* The calls of linear and gelu, for a call of the pair. The value between them is at the beginning of scratch. */
struct pair { struct step linear_step, gelu_step; struct call linear, gelu; };

static int64_t between_bytes(const struct call *c) { return arena_align_on(DEVICE_CUDA, type_bytes(c->in[0].type)); }

static void split(const struct call *c, struct pair *p) {
    void *between = in_place && c->din[0].data ? c->din[0].data : c->work;
    p->linear_step = p->gelu_step = *c->step;
    p->linear_step.op = &op_linear, p->gelu_step.op = &op_gelu;
    p->gelu_step.n_weight = 0;
    p->linear = p->gelu = *c;
    p->linear.step = &p->linear_step, p->gelu.step = &p->gelu_step;
    p->linear.in[0].data = c->out[0].data ? between : NULL;
    p->linear.din[0].data = c->din[0].data ? between : NULL;
    p->linear.work = c->work ? (char *)c->work + between_bytes(c) : NULL;
    p->linear.accumulate = 0;
    p->gelu.out[0] = p->gelu.dout[0] = (struct tensor){between, c->in[0].type};
    p->gelu.weight[0].data = NULL, p->gelu.work = NULL;
}

static int64_t work(const struct call *c, enum row_kind kind) {
    struct pair p;
    split(c, &p);
    return between_bytes(c) + op_work(&p.linear, kind);
}

/* Write the last byte of scratch, which op_case_run checks, because the product may not write its scratch. */
static enum status touch(const struct call *c, enum row_kind kind) {
    return c->device->clear(c->device, (char *)c->work + work(c, kind) - 1, 1);
}

static enum status forward(const struct call *c) {
    struct pair p;
    split(c, &p);
    TRY(touch(c, ROW_FORWARD));
    TRY(op_run(&p.gelu, ROW_FORWARD));
    return op_run(&p.linear, ROW_FORWARD);
}

static enum status backward(const struct call *c) {
    struct pair p;
    split(c, &p);
    TRY(touch(c, ROW_BACKWARD_INPUT));
    fused_kernel *run = apart ? NULL : fusion_of(&p.linear, &p.gelu, ROW_BACKWARD_INPUT);
    joined += run != NULL;
    if (run) return run(&p.linear, &p.gelu);
    TRY(op_run(&p.linear, ROW_BACKWARD_INPUT));
    return op_run(&p.gelu, ROW_BACKWARD_INPUT);
}

static enum status shape(const struct call *c, struct type out[MAX_OUT]) { return op_linear.shape(c, out); }

#define BOTH {forward, backward, NULL}
#define BOTH_OF_ALL {[FP64] = BOTH, [FP32] = BOTH, [BF16] = BOTH, [FP16] = BOTH}
static const struct op gelu_linear = {
    .name = "gelu_linear",
    .typing = TYPING_PRODUCT,
    .shape = shape,
    .needs = {.bi_in = IN(0), .bi_weight = WEIGHT(0)},
    .has_backward_input = true,
    .work = work,
    .kernels = {[DEVICE_CPU] = BOTH_OF_ALL, [DEVICE_CUDA] = BOTH_OF_ALL},
};

static struct { int T, K, C; } s;
static void make(struct op_case *c, enum dtype d) {
    op_case_start(c, &gelu_linear, 1);
    op_case_input(c, op_type(d, "BTK", 2, s.T, s.K));
    op_case_weight(c, op_type(d, "CK", s.C, s.K));
    op_case_finish(c);
}

/* cuBLASLt can read gelu's input with 24 hidden units. It cannot with 21, so the two kernels run. Both ways are also
 * checked with accumulation. */
TEST(test_gelu_backward_in_the_product_is_the_cpus) {
    s.T = 7;
    for (int how = 0; how < 4; how++) {
        s.K = how & 1 ? 21 : 24, s.C = how & 2 ? 13 : 40;
        in_place = false;
        op_case_check_siblings(make, 40, 1);
    }
}

static void run_in_place(struct op_case *c, bool two_kernels) {
    in_place = true, apart = two_kernels;
    op_case_run(c, ROW_BACKWARD_INPUT);
    in_place = apart = false;
}

/* As in a program, gelu's dx overwrites its dy. */
TEST(test_gelu_backward_in_the_product_is_in_place) {
    if (on_cpu()) skip();
    s.T = 7, s.K = 24, s.C = 40;
    for (enum dtype d = FP32; d <= FP16; d++) {
        struct op_case one, two;
        make(&one, d), make(&two, d);
        int64_t before = joined;
        run_in_place(&one, false), run_in_place(&two, true);
        assert_int_equal(joined - before, 1);
        assert_close(tensor_error(&one.din[0], &two.din[0]), 0, op_error_bound(d, 40, 1));
        op_case_free(&one), op_case_free(&two);
    }
}

/* (1 + 2^-8) gelu'(1/2) is 223/256 in bf16. If the sum is rounded to 1 first, the product is 222/256. */
TEST(test_gelu_backward_takes_the_sum_unrounded) {
    if (on_cpu()) skip();
    struct op_case c;
    s.T = 1, s.K = 8, s.C = 2;
    make(&c, BF16);
    for (int i = 0; i < 16; i++) dtype_set(c.in[0].data, BF16, i, 0.5), dtype_set(c.weight[0].data, BF16, i, 1);
    for (int i = 0; i < 4; i++) dtype_set(c.dout[0].data, BF16, i, i % 2 ? 0x1p-8 : 1);
    run_in_place(&c, false);
    for (int i = 0; i < 16; i++) assert_close(dtype_get(c.din[0].data, BF16, i), 223.0 / 256, 0);
    run_in_place(&c, true);
    for (int i = 0; i < 16; i++) assert_close(dtype_get(c.din[0].data, BF16, i), 222.0 / 256, 0);
    op_case_free(&c);
}

/* If the library offers no algorithm, the bits are those of the two separate kernels. */
TEST(test_gelu_backward_without_the_epilogue) {
    if (on_cpu()) skip();
    struct op_case one, two;
    s.T = 5, s.K = 16, s.C = 9;                  /* sizes of no other test: a plan is kept */
    make(&one, BF16), make(&two, BF16);
    setenv("SIMT_EPILOGUES", "0", 1);
    run_in_place(&one, false);
    unsetenv("SIMT_EPILOGUES");
    run_in_place(&two, true);
    if (simt_checked) assert_memory_equal(one.din[0].data, two.din[0].data, (size_t)type_bytes(&one.in_type[0]));
    op_case_free(&one), op_case_free(&two);
}

/* Only the library's product runs, and no kernel of ours. */
TEST(test_gelu_backward_launches_no_kernel) {
    struct op_case c;
    if (on_cpu() || !simt_checked || !simt_checked()) skip();
    s.T = 7, s.K = 24, s.C = 40;
    make(&c, BF16);
    simt_count(1);
    run_in_place(&c, false);
    struct simt_counts counts = simt_counts();
    simt_count(0);
    assert_int_equal(counts.load.requests + counts.store.requests, 0);
    op_case_free(&c);
}

TESTS(unit_test(test_gelu_backward_in_the_product_is_the_cpus),
      unit_test(test_gelu_backward_in_the_product_is_in_place),
      unit_test(test_gelu_backward_takes_the_sum_unrounded), unit_test(test_gelu_backward_without_the_epilogue),
      unit_test(test_gelu_backward_launches_no_kernel))
