/* ranks: 1  device: any
 *
 * cast_fp8 and linear_fp8 against their formula, computed one number at a time (dtype_set rounds to fp8). */
#include "lib/device/arena.h"
#include "lib/ops/fp8.h"
#include "lib/ops/linear.h"
#include "lib/ops/test_op.h"
#include <stdlib.h>

enum { R = 16, K = 48, N = 16, FIRST = 4, N_TENSORS = 9 };

/* x (2,8,16) with W (3,4,4,16) and a bias, as in the qkv projection: 16 divides all sizes, as tensor cores need. The
 * layer's tensors are numbers 4, 5 and 6. */
struct layer {
    struct type x, code, w, b, y;
    double scale[N_TENSORS], amax[N_TENSORS];
    struct step cast, linear;
    struct tensor in, codes, weight, bias, out, dout, din, dw, db;
};

static void fill(const struct tensor *t, const char *name, double size) {
    for (int64_t i = 0; i < type_n(t->type); i++)
        dtype_set(t->data, t->type->dtype, i, size * rng_normal(1, rng_stream(name), (uint64_t)i));
}

/* No scale is a power of two, and x and dy are so large that some saturate. */
static void layer_init(struct layer *l, enum dtype dtype) {
    struct fp8_rule rule = {FIRST, l->scale, l->amax};
    *l = (struct layer){.x = op_type(dtype, "BTC", 2, 8, N), .code = op_type(FP8_E4M3, "BTC", 2, 8, N),
                        .w = op_type(dtype, "3HDC", 3, 4, 4, N), .b = op_type(dtype, "3HD", 3, 4, 4),
                        .y = op_type(dtype, "BT3HD", 2, 8, 3, 4, 4)};
    l->scale[FIRST + FP8_X] = 191, l->scale[FIRST + FP8_W] = 3.3, l->scale[FIRST + FP8_DY] = 7e4;
    l->cast = (struct step){.op = &op_cast_fp8, .n_in = 1, .n_out = 1, .fp8 = rule};
    l->linear = (struct step){.op = &op_linear_fp8, .n_in = 1, .n_out = 1, .n_weight = 2, .fp8 = rule};
    l->in = tensor_new(&l->x), l->codes = tensor_new(&l->code), l->din = tensor_new(&l->x);
    l->weight = tensor_new(&l->w), l->dw = tensor_new(&l->w);
    l->bias = tensor_new(&l->b), l->db = tensor_new(&l->b);
    l->out = tensor_new(&l->y), l->dout = tensor_new(&l->y);
    fill(&l->in, "x", 1), fill(&l->weight, "w", 1), fill(&l->bias, "b", 1), fill(&l->dout, "dy", 0.5);
    fill(&l->dw, "dw", 1), fill(&l->db, "db", 0);
}

static void layer_fini(struct layer *l) {
    const struct tensor *all[] = {&l->in, &l->codes, &l->weight, &l->bias, &l->out, &l->dout, &l->din, &l->dw, &l->db};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

static struct call call_of(struct layer *l, const struct step *step) {
    return (struct call){.step = step, .in = {step == &l->cast ? l->in : l->codes}, .n_threads = 1,
                         .out = {step == &l->cast ? l->codes : l->out}, .weight = {l->weight, l->bias},
                         .din = {l->din}, .dout = {l->dout}, .dweight = {l->dw, l->db}, .training = true,
                         .on = test_device()->kind};
}

/* Run a call with scratch, and with amax in device memory. */
static void run_call(struct layer *l, struct call *c, enum row_kind kind) {
    const struct device *d = test_device();
    struct step step = *c->step;
    c->step = &step;
    c->work = aligned_alloc(ARENA_ALIGN, (size_t)arena_align(op_work(c, kind) + 2 * ARENA_ALIGN));
    assert_ok(d->allocate(d, sizeof l->amax, (void **)&step.fp8.amax));
    assert_ok(d->upload(d, step.fp8.amax, l->amax, sizeof l->amax));
    assert_ok(op_case_run_call(c, kind));
    assert_ok(d->download(d, l->amax, step.fp8.amax, sizeof l->amax));
    d->release(d, step.fp8.amax, sizeof l->amax);
    free(c->work);
}
static void run(struct layer *l, const struct step *step, enum row_kind kind) {
    struct call c = call_of(l, step);
    run_call(l, &c, kind);
}

static void run_all(struct layer *l) {
    run(l, &l->cast, ROW_FORWARD);
    run(l, &l->linear, ROW_FORWARD);
    run(l, &l->linear, ROW_BACKWARD_INPUT);
    run(l, &l->linear, ROW_BACKWARD_WEIGHT);
}

/* ---- the formula ---- */
static double at(const struct tensor *t, int64_t i) { return dtype_get(t->data, t->type->dtype, i); }

/* Element i's value after the cast, divided by the scale. In 16 and 32 bits the scaled number is first rounded to
 * fp32. */
static double in_fp8(const struct layer *l, const struct tensor *t, enum fp8_tensor which, int64_t i) {
    double s = l->scale[FIRST + which], scaled = t->type->dtype == FP64 ? s * at(t, i) : (double)(float)(s * at(t, i));
    uint8_t code;
    enum dtype format = which == FP8_DY ? FP8_E5M2 : FP8_E4M3;
    dtype_set(&code, format, 0, scaled);
    return dtype_get(&code, format, 0) / s;
}

static void check_y(const struct layer *l, double bound) {
    for (int r = 0; r < R; r++)
        for (int k = 0; k < K; k++) {
            double sum = at(&l->bias, k);
            for (int n = 0; n < N; n++)
                sum += in_fp8(l, &l->in, FP8_X, r * N + n) * in_fp8(l, &l->weight, FP8_W, k * N + n);
            assert_close(at(&l->out, r * K + k), sum, bound);
        }
}
static void check_dx(const struct layer *l, double bound) {
    for (int r = 0; r < R; r++)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += in_fp8(l, &l->dout, FP8_DY, r * K + k) * in_fp8(l, &l->weight, FP8_W, k * N + n);
            assert_close(at(&l->din, r * N + n), sum, bound);
        }
}
/* dW and db are added to `before`. */
static void check_dw(const struct layer *l, const struct tensor *before, double bound) {
    for (int k = 0; k < K; k++) {
        double bias = 0;
        for (int n = 0; n < N; n++) {
            double sum = at(before, k * N + n);
            for (int r = 0; r < R; r++)
                sum += in_fp8(l, &l->dout, FP8_DY, r * K + k) * in_fp8(l, &l->in, FP8_X, r * N + n);
            assert_close(at(&l->dw, k * N + n), sum, bound);
        }
        for (int r = 0; r < R; r++) bias += at(&l->dout, r * K + k);
        assert_close(at(&l->db, k), bias, bound);
    }
}

/* Sums of up to 48 terms are below 64. The bound is two roundings of 64 to the dtype, and 96 roundings of 64 in the
 * accumulator for the sums. */
static void check_formula(enum dtype dtype) {
    double bound = 64 * (2 * dtype_roundoff(dtype) + (dtype == FP64 ? 96 * 0x1p-53 : 96 * 0x1p-24));
    struct layer l, before;
    layer_init(&l, dtype);
    layer_init(&before, dtype);
    run_all(&l);
    for (int i = 0; i < R * N; i++)
        assert_close(at(&l.codes, i) / l.scale[FIRST + FP8_X], in_fp8(&l, &l.in, FP8_X, i), 1e-15 * 8);
    check_y(&l, bound);
    check_dx(&l, bound);
    check_dw(&l, &before.dw, bound);
    layer_fini(&l);
    layer_fini(&before);
}

TEST(test_fp8_linear_is_its_formula) {
    if (test_device()->kind == DEVICE_CPU) check_formula(FP64);
    check_formula(FP32);
    check_formula(BF16);
}

/* ---- amax ---- */
static double largest(const struct tensor *t) {
    double most = 0;
    for (int64_t i = 0; i < type_n(t->type); i++) most = fmax(most, fabs(at(t, i)));
    return most;
}

TEST(test_fp8_notes_the_largest_of_each_tensor) {
    struct layer l;
    layer_init(&l, FP32);
    run_all(&l);
    double expected[N_TENSORS] = {0};
    expected[FIRST + FP8_X] = largest(&l.in);
    expected[FIRST + FP8_W] = largest(&l.weight);
    expected[FIRST + FP8_DY] = largest(&l.dout);
    assert_memory_equal(l.amax, expected, sizeof expected);
    l.amax[FIRST + FP8_W] = 1e3;                                     /* a larger amax stays */
    run_all(&l);
    assert_close(l.amax[FIRST + FP8_W], 1e3, 0);
    layer_fini(&l);
}

TEST(test_fp8_notes_infinity_for_what_is_not_finite) {
    static const double odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) {
        struct layer l;
        layer_init(&l, BF16);
        dtype_set(l.in.data, BF16, 3, odd[i]);
        run(&l, &l.cast, ROW_FORWARD);
        assert_true(l.amax[FIRST + FP8_X] == INFINITY);
        layer_fini(&l);
    }
}

TEST(test_fp8_evaluation_notes_nothing) {
    struct layer l;
    layer_init(&l, FP32);
    struct call c = call_of(&l, &l.cast);
    c.training = false;
    run_call(&l, &c, ROW_FORWARD);
    for (int i = 0; i < N_TENSORS; i++) assert_close(l.amax[i], 0, 0);
    layer_fini(&l);
}

/* ---- the rest ---- */
static void check_added(enum dtype dtype) {
    struct layer l;
    layer_init(&l, dtype);
    struct tensor dy = tensor_new(&l.x), dx = tensor_new(&l.x);
    struct call c = call_of(&l, &l.cast);
    c.dout[0] = dy, c.accumulate = 1;
    fill(&dy, "dy", 1), fill(&dx, "dx", 1), fill(&l.din, "dx", 1);
    run_call(&l, &c, ROW_BACKWARD_INPUT);
    for (int i = 0; i < R * N; i++) {
        dtype_set(dx.data, dtype, i, (float)(at(&dy, i) + at(&dx, i)));      /* the sum is in fp32, as on the device */
        assert_close(at(&l.din, i), at(&dx, i), 0);
    }
    free(dy.data), free(dx.data);
    layer_fini(&l);
}

TEST(test_fp8_cast_adds_its_gradient_to_anothers) {
    check_added(FP32);
    check_added(BF16);
}

TEST(test_fp8_linear_refuses_what_is_not_cast) {
    struct type x = op_type(FP32, "BTC", 1, 2, 8), w = op_type(FP32, "KC", 3, 8), out[MAX_OUT];
    struct step step = {.op = &op_linear_fp8, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_linear_fp8.shape(&call, out), E_CONFIG, "linear_fp8", "not in E4M3");
    x.dtype = FP8_E4M3;
    assert_ok(op_linear_fp8.shape(&call, out));
    assert_int_equal(out[0].dtype, FP32);
    call.on = DEVICE_CUDA;
    assert_fails(op_linear_fp8.shape(&call, out), E_CONFIG, "linear_fp8", "16 divides");
}

TEST(test_fp8_wants_a_gpu_that_has_it) {
    struct device ampere = {.kind = DEVICE_CUDA, .name = "cuda 0 (A100)", .capability = 80}, ada = ampere;
    ada.capability = 89;
    assert_fails(fp8_supported(&ampere), E_CONFIG, "A100", "8.0", "8.9");
    assert_ok(fp8_supported(&ada));
    assert_ok(fp8_supported(device_cpu()));
    assert_ok(fp8_supported(test_device()));
    assert_fails(blocks_supported(&ampere, "nvfp4"), E_CONFIG, "nvfp4", "A100", "8.0", "10.0", "leave fp8 out");
    assert_fails(blocks_supported(&ada, "mxfp8"), E_CONFIG, "mxfp8", "8.9", "10.0", "fp8-recipe delayed");
    ada.capability = 100;
    assert_ok(blocks_supported(&ada, "mxfp8"));
    assert_ok(blocks_supported(device_cpu(), "mxfp8"));
}

TESTS(unit_test(test_fp8_linear_is_its_formula), unit_test(test_fp8_notes_the_largest_of_each_tensor),
      unit_test(test_fp8_notes_infinity_for_what_is_not_finite), unit_test(test_fp8_evaluation_notes_nothing),
      unit_test(test_fp8_cast_adds_its_gradient_to_anothers), unit_test(test_fp8_linear_refuses_what_is_not_cast),
      unit_test(test_fp8_wants_a_gpu_that_has_it))
