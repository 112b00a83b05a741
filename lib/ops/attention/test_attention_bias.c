/* ranks: 1  device: any
 *
 * T5's attention: a bias by relative position, scores that are not scaled, keys of another sequence. GPUs refuse these.
 * tests/hf.sh compares with PyTorch. */
#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_bias.h"
#include "lib/ops/test_op.h"

static struct { int B, T, Tk, H, D, first, n; double p; enum attention_mask mask; bool cross, bias; } x;

static void make_with(struct op_case *c, const struct op *op, enum dtype dtype, bool store) {
    op_case_start(c, op, op_n_out(op, store));
    c->step.dropout.p = x.p;
    c->step.attention.mask = x.mask;
    c->step.attention.cross = x.cross;
    c->step.attention.unscaled = true;
    c->settings.first_sample = 5;
    if (x.cross) {
        op_case_input(c, op_type_part(op_type(dtype, "BTHD", x.B, x.T, x.H, x.D), 'H', x.first, x.n));
        op_case_input(c, op_type_part(op_type(dtype, "BT2JD", x.B, x.Tk, 2, x.H, x.D), 'J', x.first, x.n));
    } else {
        op_case_input(c, op_type_part(op_type(dtype, "BT3HD", x.B, x.T, 3, x.H, x.D), 'H', x.first, x.n));
    }
    if (x.bias) op_case_weight(c, op_type_part(op_type(dtype, "RH", ATTENTION_BUCKETS, x.H), 'H', x.first, x.n));
    op_case_finish(c);
}
static void make_blocked(struct op_case *c, enum dtype dtype) { make_with(c, &op_attention_blocked, dtype, false); }
static void make_materialised(struct op_case *c, enum dtype dtype) {
    make_with(c, &op_attention_materialised, dtype, false);
}
static void make_store(struct op_case *c, enum dtype dtype) { make_with(c, &op_attention_materialised, dtype, true); }

static bool on_cuda(void) { return test_device()->kind == DEVICE_CUDA; }

static void itself(enum attention_mask mask, int T) {
    memset(&x, 0, sizeof x);
    x.B = 2, x.T = x.Tk = T, x.H = x.n = 3, x.D = 3, x.mask = mask, x.p = 0.25, x.bias = true;
}
static void other(int T, int Tk, bool bias) {
    itself(MASK_FULL, T);
    x.Tk = Tk, x.cross = true, x.bias = bias;
}

/* ---- buckets: the results of transformers' _relative_position_bucket(j - t, bidirectional, 32, 128) ---- */
TEST(test_buckets_are_those_of_t5) {
    static const struct { int distance, both, before; } known[] = {
        {0, 0, 0},    {1, 17, 0},   {7, 23, 0},    {8, 24, 0},     {11, 24, 0},   {12, 25, 0},   {16, 26, 0},
        {127, 31, 0}, {128, 31, 0}, {9999, 31, 0}, {-1, 1, 1},     {-7, 7, 7},    {-8, 8, 8},    {-15, 9, 15},
        {-16, 10, 16}, {-18, 10, 16}, {-19, 10, 17}, {-23, 11, 18}, {-32, 12, 21}, {-64, 14, 26}, {-90, 14, 29},
        {-91, 15, 29}, {-112, 15, 30}, {-113, 15, 31}, {-128, 15, 31}, {-9999, 15, 31}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(attention_bucket(known[i].distance, true), known[i].both);
        assert_int_equal(attention_bucket(known[i].distance, false), known[i].before);
    }
}

/* ---- the formula, written out, without dropout ---- */
static void check_formula(op_case_maker *make) {
    struct op_case c;
    x.p = 0;
    make(&c, FP64);
    op_case_run(&c, ROW_FORWARD);
    int H = x.n, D = x.D, row = (x.cross ? 1 : 3) * H * D, key_row = (x.cross ? 2 : 3) * H * D;
    const double *q0 = c.in[0].data, *k0 = x.cross ? c.in[1].data : q0 + H * D, *y = c.out[0].data;
    for (int r = 0; r < x.B * x.T * H; r++) {
        int h = r % H, t = r / H % x.T, b = r / H / x.T;
        double sum = 0, value[3] = {0};
        for (int j = 0; j < (x.mask == MASK_FULL ? x.Tk : t + 1); j++) {
            const double *q = q0 + (b * x.T + t) * row + h * D, *k = k0 + (b * x.Tk + j) * key_row + h * D;
            int bucket = attention_bucket(j - t, x.mask == MASK_FULL);
            double s = x.bias ? ((double *)c.weight[0].data)[bucket * H + h] : 0;
            for (int i = 0; i < D; i++) s += q[i] * k[i];
            sum += exp(s);
            for (int i = 0; i < D; i++) value[i] += exp(s) * k[H * D + i];
        }
        for (int i = 0; i < D; i++) assert_close(y[r * D + i], value[i] / sum, 1e-13);
    }
    op_case_free(&c);
}

TEST(test_attention_with_bias_is_its_formula) {
    if (on_cuda()) return;
    for (int mask = 0; mask < 2; mask++) {
        itself((enum attention_mask)mask, 67);
        check_formula(make_blocked);
        check_formula(make_materialised);
    }
    for (int bias = 0; bias < 2; bias++)
        for (int longer = 0; longer < 2; longer++) {
            other(longer ? 70 : 5, longer ? 9 : 130, bias);
            check_formula(make_blocked);
            check_formula(make_materialised);
        }
}

/* ---- gradients of inputs and table; heads 1 and 2 of 3 ---- */
static void check_slopes(void) {
    op_case_check_gradients(make_blocked);
    op_case_check_gradients(make_materialised);
    op_case_check_gradients(make_store);
}

TEST(test_gradients_of_attention_with_bias_are_slopes) {
    if (on_cuda()) return;
    for (int mask = 0; mask < 2; mask++) {
        itself((enum attention_mask)mask, 11);
        x.first = 1, x.n = 2;
        check_slopes();
    }
    other(4, 9, true);
    check_slopes();
    other(9, 4, false);
    check_slopes();
    itself(MASK_CAUSAL, 67), x.B = x.H = x.n = x.D = 1;
    op_case_check_gradients(make_blocked);
}

/* Blocked and materialised attention agree, forward and backward. A bucket sums up to T x Tk terms of two samples. */
static void check_one_is_the_other(void) {
    struct op_case a, b;
    make_blocked(&a, FP64);
    make_materialised(&b, FP64);
    op_case_run_all(&a);
    op_case_run_all(&b);
    double bound = op_error_bound(FP64, 2 * x.T * x.Tk + 16, 0);
    assert_close(tensor_error(&a.out[0], &b.out[0]), 0, bound);
    for (int i = 0; i < (x.cross ? 2 : 1); i++) assert_close(tensor_error(&a.din[i], &b.din[i]), 0, bound);
    if (x.bias) assert_close(tensor_error(&a.dweight[0], &b.dweight[0]), 0, bound);
    op_case_free(&a);
    op_case_free(&b);
}

TEST(test_blocked_attention_with_bias_is_materialised) {
    static const int lengths[][2] = {{1, 1}, {64, 64}, {65, 130}, {130, 65}, {3, 192}, {192, 3}};
    if (on_cuda()) return;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        other(lengths[i][0], lengths[i][1], i % 2);
        check_one_is_the_other();
        itself((enum attention_mask)(i % 2), lengths[i][0]);
        check_one_is_the_other();
    }
}

TEST(test_attention_with_bias_in_every_precision) {
    if (on_cuda()) return;
    for (int mask = 0; mask < 2; mask++) {
        itself((enum attention_mask)mask, 67);
        op_case_check_precisions(make_blocked, 2 * 67 * 67, 1);
        op_case_check_precisions(make_materialised, 2 * 67 * 67, 2);
        op_case_check_threads(make_blocked);
        op_case_check_threads(make_store);
    }
    other(33, 70, true);
    op_case_check_precisions(make_blocked, 2 * 33 * 70, 1);
    op_case_check_precisions(make_store, 2 * 33 * 70, 2);
    op_case_check_stored_masks(make_store, make_materialised);
}

/* ---- refused ---- */
static enum status shape_of(struct op_case *c, enum device_kind on) {
    struct call call = op_case_call(c, ROW_FORWARD);
    struct type out[MAX_OUT];
    call.on = on;
    return c->step.op->shape(&call, out);
}

TEST(test_attention_refuses_what_it_cannot) {
    struct op_case c;
    if (on_cuda()) return;
    itself(MASK_FULL, 5);
    make_blocked(&c, FP64);
    assert_fails(shape_of(&c, DEVICE_CUDA), E_CONFIG, "relative bias", "use the cpu");
    c.weight_type[0] = op_type(FP64, "RH", ATTENTION_BUCKETS - 1, 3);
    assert_fails(shape_of(&c, DEVICE_CPU), E_CONFIG, "32 buckets");
    c.weight_type[0] = op_type(FP64, "RH", ATTENTION_BUCKETS, 2);
    assert_fails(shape_of(&c, DEVICE_CPU), E_CONFIG, "heads");
    op_case_free(&c);
    other(4, 7, false);
    make_blocked(&c, FP64);
    assert_ok(shape_of(&c, DEVICE_CPU));
    assert_fails(shape_of(&c, DEVICE_CUDA), E_CONFIG, "another sequence");
    c.step.attention.mask = MASK_CAUSAL;
    assert_fails(shape_of(&c, DEVICE_CPU), E_CONFIG, "queries and keys differ");
    c.step.attention.mask = MASK_FULL, c.step.attention.cross = false;
    assert_fails(shape_of(&c, DEVICE_CPU), E_CONFIG, "queries and keys differ");
    op_case_free(&c);
}

TESTS(unit_test(test_buckets_are_those_of_t5), unit_test(test_attention_with_bias_is_its_formula),
      unit_test(test_gradients_of_attention_with_bias_are_slopes),
      unit_test(test_blocked_attention_with_bias_is_materialised),
      unit_test(test_attention_with_bias_in_every_precision), unit_test(test_attention_refuses_what_it_cannot))
