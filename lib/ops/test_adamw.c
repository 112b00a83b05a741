/* ranks: 1  device: any */
#include "lib/base/rng.h"
#include "lib/ops/optimizer.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { N = 12304, LENGTH = N - 5, MOST = 2000 };   /* LENGTH: several chunks of the CUDA kernel, and a last vector that
                                                    * is not full */
static const double multiplier = 0.5;
static const struct optimizer_settings settings = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                                   .weight_decay = 0.1, .grad_multiplier = &multiplier, .step = 3};

/* The dtypes and options of a case. */
struct kinds { enum dtype weight, grad; bool master, decay; };

/* All arrays of N elements, filled from the index. They have room for doubles; smaller types use only the front. */
struct buffers { double weight[N], grad[N], m[N], v[N], master[N], multiplier; };

static struct buffers *buffers_new(struct kinds k) {
    struct buffers *b = calloc(1, sizeof *b);
    enum dtype moments = dtype_accumulator(k.weight);
    for (int i = 0; i < N; i++) {
        double w = rng_normal(1, 1, (uint64_t)i);
        dtype_set(b->weight, k.weight, i, w);
        dtype_set(b->master, FP32, i, w);
        dtype_set(b->grad, k.grad, i, rng_normal(1, 2, (uint64_t)i));
        dtype_set(b->m, moments, i, rng_normal(1, 3, (uint64_t)i));
        dtype_set(b->v, moments, i, rng_uniform(1, 4, (uint64_t)i));
    }
    b->multiplier = multiplier;
    return b;
}

static void *at(void *x, enum dtype d, int64_t i) { return (char *)x + i * (int64_t)dtype_size(d); }

static struct optimizer_elements elements(struct buffers *there, struct kinds k, int64_t first, int64_t n) {
    enum dtype moments = dtype_accumulator(k.weight);
    return (struct optimizer_elements){n, at(there->weight, k.weight, first), k.weight,
                                       at(there->grad, k.grad, first), k.grad,
                                       {at(there->m, moments, first), at(there->v, moments, first)},
                                       k.master ? at(there->master, FP32, first) : NULL, k.decay, NULL};
}

/* Update n sets, elements cut[i] .. cut[i+1]-1, in one call on the device. */
static void update_on(const struct device *d, struct buffers *b, struct kinds k, const int64_t *cut, int n) {
    static struct optimizer_elements e[MOST];
    struct buffers *there;
    void *memory;
    assert_ok(d->allocate(d, sizeof *b, &memory));
    assert_ok(d->upload(d, there = memory, b, sizeof *b));
    for (int i = 0; i < n; i++) e[i] = elements(there, k, cut[i], cut[i + 1] - cut[i]);
    struct optimizer_settings a = settings;
    a.grad_multiplier = &there->multiplier;
    assert_ok(optimizer_update(&optimizer_adamw, d, &a, e, n));
    assert_ok(d->download(d, b, there, sizeof *b));
    d->release(d, memory, sizeof *b);
}

static void update(struct buffers *b, struct kinds k) {
    update_on(test_device(), b, k, (const int64_t[]){0, LENGTH}, 1);
}

/* torch.optim.AdamW, line by line, in double. */
static double reference(double w, double grad, double *m, double *v, bool decay) {
    double g = multiplier * grad;
    w *= 1 - settings.lr * (decay ? settings.weight_decay : 0);
    *m = settings.beta1 * *m + (1 - settings.beta1) * g;
    *v = settings.beta2 * *v + (1 - settings.beta2) * g * g;
    double correction1 = 1 - pow(settings.beta1, 3), correction2 = 1 - pow(settings.beta2, 3);
    return w - settings.lr / correction1 * *m / (sqrt(*v) / sqrt(correction2) + settings.eps);
}

/* The bound: a dozen roundings in the moments' dtype, then one in the weight's. In these data |w|, |m| and v are below
 * 5, and the step lr m / sqrt(v) is below 10. */
static void check_formula(struct kinds k) {
    struct buffers *b = buffers_new(k), *old = buffers_new(k);
    enum dtype moments = dtype_accumulator(k.weight);
    update(b, k);
    double u = moments == FP64 ? ldexp(1, -53) : ldexp(1, -24), stored = k.weight == BF16   ? ldexp(1, -8)
                                                                         : k.weight == FP16 ? ldexp(1, -11)
                                                                                            : u;
    for (int i = 0; i < LENGTH; i++) {
        double m = dtype_get(old->m, moments, i), v = dtype_get(old->v, moments, i);
        double w = k.master ? dtype_get(old->master, FP32, i) : dtype_get(old->weight, k.weight, i);
        double expected = reference(w, dtype_get(old->grad, k.grad, i), &m, &v, k.decay);
        assert_close(dtype_get(b->m, moments, i), m, 12 * u * 5);
        assert_close(dtype_get(b->v, moments, i), v, 12 * u * 5);
        assert_close(dtype_get(b->weight, k.weight, i), expected, stored * fabs(expected) + 12 * u * 10);
        if (k.master) assert_close(dtype_get(b->master, FP32, i), expected, 12 * u * 10);
    }
    free(b);
    free(old);
}

TEST(test_adamw_is_its_formula) {
    check_formula((struct kinds){FP64, FP64, false, true});
    check_formula((struct kinds){FP32, FP32, false, true});
    check_formula((struct kinds){FP32, FP32, false, false});
    check_formula((struct kinds){BF16, FP32, true, true});
    check_formula((struct kinds){BF16, BF16, true, false});
    check_formula((struct kinds){FP16, FP32, true, true});
    check_formula((struct kinds){BF16, BF16, false, true});
}

/* ---- the same bits ---- */

/* Compare whole arrays, because bytes outside of the case's elements (an array's end, an unused master) must not change
 * either. */
static void assert_same_bits(const struct buffers *a, const struct buffers *b) {
    assert_memory_equal(a->weight, b->weight, sizeof a->weight);
    assert_memory_equal(a->m, b->m, sizeof a->m);
    assert_memory_equal(a->v, b->v, sizeof a->v);
    assert_memory_equal(a->master, b->master, sizeof a->master);
    assert_memory_equal(a->grad, b->grad, sizeof a->grad);
}

/* Every dtype of weights with every dtype of gradients, with and without master. Division, square root, fused products
 * and roundings must be the same on both devices. */
TEST(test_adamw_has_the_same_bits_on_the_device_and_the_cpu) {
    for (enum dtype weight = FP64; weight <= FP16; weight++)
        for (enum dtype grad = FP64; grad <= FP16; grad++)
            for (int master = 0; master <= (weight == BF16 || weight == FP16); master++) {
                struct kinds k = {weight, grad, master, (weight + grad) % 2};
                struct buffers *cpu = buffers_new(k), *device = buffers_new(k);
                update_on(device_cpu(), cpu, k, (const int64_t[]){0, LENGTH}, 1);
                update(device, k);
                assert_same_bits(device, cpu);
                free(cpu);
                free(device);
            }
}

/* Draw places to cut at: unaligned, some pieces shorter than a vector, some empty. Returns the number of pieces. */
static int cut_up(int64_t cut[MOST + 1], uint64_t trial) {
    int n = 0;
    double longest = trial % 2 ? 20 : 3000;
    for (cut[0] = 0; cut[n] < LENGTH; n++) {
        int64_t length = (int64_t)(longest * rng_uniform(trial, 5, (uint64_t)n));
        cut[n + 1] = cut[n] + length > LENGTH || n == MOST - 1 ? LENGTH : cut[n] + length;
    }
    return n;
}

/* All pieces go in one call, for which a GPU needs several launches of dozens of tensors each. */
static void check_splits(struct kinds k) {
    static int64_t cut[MOST + 1];
    struct buffers *whole = buffers_new(k);
    update(whole, k);
    for (uint64_t trial = 0; trial < 6; trial++) {
        struct buffers *parts = buffers_new(k);
        update_on(test_device(), parts, k, cut, cut_up(cut, trial));
        assert_same_bits(parts, whole);
        free(parts);
    }
    free(whole);
}

TEST(test_adamw_does_not_depend_on_how_elements_are_split) {
    check_splits((struct kinds){FP64, FP64, false, true});
    check_splits((struct kinds){FP32, FP32, false, true});
    check_splits((struct kinds){BF16, FP32, true, true});
    check_splits((struct kinds){FP16, BF16, false, false});
}

/* Sets of different dtypes, with and without decay, in one call give the bits of one call each. */
TEST(test_adamw_takes_sets_of_every_dtype_in_one_call) {
    static const struct kinds kinds[] = {{BF16, FP32, true, true}, {FP32, FP32, false, false},
                                         {BF16, BF16, true, false},
                                         {FP64, FP64, false, true}, {FP16, FP16, true, true}};
    const struct device *d = test_device();
    struct buffers *alone[5], *there[5];
    struct optimizer_elements e[5];
    struct optimizer_settings a = settings;
    for (int i = 0; i < 5; i++) {
        void *memory;
        alone[i] = buffers_new(kinds[i]);
        assert_ok(d->allocate(d, sizeof **there, &memory));
        assert_ok(d->upload(d, there[i] = memory, alone[i], sizeof **there));
        e[i] = elements(there[i], kinds[i], 0, LENGTH);
        update(alone[i], kinds[i]);
    }
    a.grad_multiplier = &there[0]->multiplier;
    assert_ok(optimizer_update(&optimizer_adamw, d, &a, e, 5));
    struct buffers *b = malloc(sizeof *b);
    for (int i = 0; i < 5; i++) {
        assert_ok(d->download(d, b, there[i], sizeof *b));
        assert_same_bits(b, alone[i]);
        d->release(d, there[i], sizeof *b);
        free(alone[i]);
    }
    free(b);
}

TEST(test_adamw_changes_nothing_when_the_multiplier_is_nan) {
    static const struct kinds kinds[] = {{FP32, FP32, false, true}, {BF16, FP32, true, true}};
    for (int i = 0; i < 2; i++) {
        struct buffers *b = buffers_new(kinds[i]), *old = buffers_new(kinds[i]);
        b->multiplier = NAN;
        update(b, kinds[i]);
        assert_same_bits(b, old);
        free(b);
        free(old);
    }
}

TEST(test_adamw_refuses_integers) {
    struct optimizer_elements e[] = {{.weight_dtype = FP32, .grad_dtype = FP32},
                                 {.weight_dtype = FP32, .grad_dtype = INT32}};
    assert_fails(optimizer_update(&optimizer_adamw, test_device(), &settings, e, 2), E_CONFIG, "adamw", "fp32",
                 "int32");
}

/* ---- the decision ---- */

struct decision { double squares, loss, norm, multiplier; };

static struct decision decide(double squares, double loss, bool with_loss, double clip, double unscale) {
    const struct device *d = test_device();
    struct decision here = {squares, loss, -1, -1}, *there;
    void *memory;
    assert_ok(d->allocate(d, sizeof here, &memory));
    assert_ok(d->upload(d, there = memory, &here, sizeof here));
    assert_ok(optimizer_decide(d, &there->multiplier, &there->norm, &there->squares, with_loss ? &there->loss : NULL,
                               clip, unscale));
    assert_ok(d->download(d, &here, there, sizeof here));
    d->release(d, memory, sizeof here);
    return here;
}

/* Every device gives the bits of this formula, in which the norm is rounded before 1e-6 is added. */
TEST(test_optimizer_decides_clipping_and_unscaling_in_one_factor) {
    for (uint64_t i = 0; i < 200; i++) {
        double squares = 9 * rng_uniform(1, 6, i), unscale = rng_uniform(1, 7, i), clip = i % 3 == 0 ? 0 : 1;
        volatile double norm = sqrt(squares) * unscale, longer = norm + 1e-6, factor = clip / longer;
        struct decision d = decide(squares, 2, i % 2, clip, unscale);
        assert_close(d.norm, norm, 0);
        assert_close(d.multiplier, (clip > 0 && factor < 1 ? factor : 1) * unscale, 0);
    }
    assert_close(decide(4, 1, true, 1, -0.25).norm, 0.5, 0);
    assert_close(decide(4, 1, true, 1, -0.25).multiplier, -0.25, 0);
}

TEST(test_optimizer_decides_on_nan_when_something_is_not_finite) {
    static const double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        assert_true(isnan(decide(bad[i], 1, true, 1, 1).multiplier));
        assert_true(isnan(decide(bad[i], 1, false, 0, 1).multiplier));
        assert_true(isnan(decide(4, bad[i], true, 1, 1).multiplier));
        assert_true(isnan(decide(4, -bad[i], true, 0, 1).multiplier));
        assert_close(decide(4, bad[i], true, 0, 1).norm, 2, 0);
        assert_close(decide(4, bad[i], false, 0, 1).multiplier, 1, 0);   /* the loss is not passed */
    }
    assert_false(isfinite(decide(INFINITY, 1, true, 1, 1).norm));
}

TESTS(unit_test(test_adamw_is_its_formula), unit_test(test_adamw_has_the_same_bits_on_the_device_and_the_cpu),
      unit_test(test_adamw_does_not_depend_on_how_elements_are_split),
      unit_test(test_adamw_takes_sets_of_every_dtype_in_one_call),
      unit_test(test_adamw_changes_nothing_when_the_multiplier_is_nan), unit_test(test_adamw_refuses_integers),
      unit_test(test_optimizer_decides_clipping_and_unscaling_in_one_factor),
      unit_test(test_optimizer_decides_on_nan_when_something_is_not_finite))
