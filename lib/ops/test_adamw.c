/* ranks: 1  device: any */
#include "lib/base/rng.h"
#include "lib/ops/adamw.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { N = 3001 };
static const struct adamw settings = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
                                      .grad_multiplier = 0.5, .step = 3};

/* n elements of everything, filled from the index. Arrays are of double; smaller types use the front of them. */
struct buffers { double weight[N], grad[N], m[N], v[N], master[N]; };

static struct buffers *buffers_new(enum dtype weight, enum dtype grad) {
    struct buffers *b = malloc(sizeof *b);
    enum dtype moments = dtype_accumulator(weight);
    for (int i = 0; i < N; i++) {
        double w = rng_normal(1, 1, (uint64_t)i);
        dtype_set(b->weight, weight, i, w);
        dtype_set(b->master, FP32, i, w);
        dtype_set(b->grad, grad, i, rng_normal(1, 2, (uint64_t)i));
        dtype_set(b->m, moments, i, rng_normal(1, 3, (uint64_t)i));
        dtype_set(b->v, moments, i, rng_uniform(1, 4, (uint64_t)i));
    }
    return b;
}

static void *at(void *x, enum dtype d, int64_t i) { return (char *)x + i * (int64_t)dtype_size(d); }

static void update(struct buffers *b, enum dtype weight, enum dtype grad, bool master, int64_t first, int64_t n) {
    enum dtype moments = dtype_accumulator(weight);
    struct adamw_elements e = {n, at(b->weight, weight, first), weight, at(b->grad, grad, first), grad,
                               at(b->m, moments, first), at(b->v, moments, first),
                               master ? at(b->master, FP32, first) : NULL};
    assert_ok(adamw_update(&settings, &e));
}

/* torch.optim.AdamW, line by line, in double. */
static double reference(double w, double grad, double *m, double *v) {
    double g = settings.grad_multiplier * grad;
    w *= 1 - settings.lr * settings.weight_decay;
    *m = settings.beta1 * *m + (1 - settings.beta1) * g;
    *v = settings.beta2 * *v + (1 - settings.beta2) * g * g;
    double correction1 = 1 - pow(settings.beta1, 3), correction2 = 1 - pow(settings.beta2, 3);
    return w - settings.lr / correction1 * *m / (sqrt(*v) / sqrt(correction2) + settings.eps);
}

/* About a dozen roundings of the moments' precision, then one of the weight's type. |w| is below 5, |m| and v below 5,
 * and the step lr m / sqrt(v) below 10 in these data. */
static void check_formula(enum dtype weight, enum dtype grad, bool master) {
    struct buffers *b = buffers_new(weight, grad), *old = buffers_new(weight, grad);
    enum dtype moments = dtype_accumulator(weight);
    update(b, weight, grad, master, 0, N);
    double u = moments == FP64 ? ldexp(1, -53) : ldexp(1, -24), stored = weight == BF16   ? ldexp(1, -8)
                                                                         : weight == FP16 ? ldexp(1, -11)
                                                                                          : u;
    for (int i = 0; i < N; i++) {
        double m = dtype_get(old->m, moments, i), v = dtype_get(old->v, moments, i);
        double w = master ? dtype_get(old->master, FP32, i) : dtype_get(old->weight, weight, i);
        double expected = reference(w, dtype_get(old->grad, grad, i), &m, &v);
        assert_close(dtype_get(b->m, moments, i), m, 12 * u * 5);
        assert_close(dtype_get(b->v, moments, i), v, 12 * u * 5);
        assert_close(dtype_get(b->weight, weight, i), expected, stored * fabs(expected) + 12 * u * 10);
        if (master) assert_close(dtype_get(b->master, FP32, i), expected, 12 * u * 10);
    }
    free(b);
    free(old);
}

static void test_adamw_is_its_formula(void **state) {
    (void)state;
    check_formula(FP64, FP64, false);
    check_formula(FP32, FP32, false);
    check_formula(BF16, FP32, true);
    check_formula(BF16, BF16, true);
    check_formula(FP16, FP32, true);
    check_formula(BF16, BF16, false);
}

/* Cut at random points, unaligned, some pieces shorter than a vector: the same bits. */
static void check_splits(enum dtype weight, enum dtype grad, bool master) {
    struct buffers *whole = buffers_new(weight, grad);
    update(whole, weight, grad, master, 0, N);
    for (uint64_t trial = 0; trial < 20; trial++) {
        struct buffers *parts = buffers_new(weight, grad);
        for (int64_t first = 0; first < N;) {
            double longest = trial % 2 ? 40 : 1500;
            int64_t n = 1 + (int64_t)(longest * rng_uniform(trial, 5, (uint64_t)first));
            if (n > N - first) n = N - first;
            update(parts, weight, grad, master, first, n);
            first += n;
        }
        enum dtype moments = dtype_accumulator(weight);
        assert_memory_equal(parts->weight, whole->weight, N * dtype_size(weight));
        assert_memory_equal(parts->m, whole->m, N * dtype_size(moments));
        assert_memory_equal(parts->v, whole->v, N * dtype_size(moments));
        if (master) assert_memory_equal(parts->master, whole->master, N * dtype_size(FP32));
        free(parts);
    }
    free(whole);
}

static void test_adamw_does_not_depend_on_how_elements_are_split(void **state) {
    (void)state;
    check_splits(FP64, FP64, false);
    check_splits(FP32, FP32, false);
    check_splits(BF16, FP32, true);
    check_splits(FP16, BF16, false);
}

static void test_adamw_refuses_integers(void **state) {
    (void)state;
    struct adamw_elements e = {.weight_dtype = FP32, .grad_dtype = INT32};
    assert_fails(adamw_update(&settings, &e), E_CONFIG, "adamw", "fp32", "int32");
}

TESTS(unit_test(test_adamw_is_its_formula), unit_test(test_adamw_does_not_depend_on_how_elements_are_split),
      unit_test(test_adamw_refuses_integers))
