/* ranks: 1  device: any */
#include "lib/base/integer.h"
#include "lib/base/rng.h"
#include "lib/ops/muon.h"
#include "lib/ops/reduce.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/* Both of SGD, Muon's, which are elementwise, too, and SGD by the sign */
static const struct optimizer *const ROWS[] = {&optimizer_sgd, &optimizer_sgd_plain, &optimizer_muon_momentum,
                                               &optimizer_muon_step, &optimizer_sign};
enum { N_SGD = 2, N_ROWS = 5, N = 12304 };   /* N: several chunks of the CUDA kernel, and a rest behind its vectors */

/* Arrays have room for doubles; smaller types use only the front. */
struct buffers { double weight[N], grad[N], state[N], master[N], multiplier; };
struct kinds { enum dtype weight, grad; bool master; };

static void *at(void *x, enum dtype d, int64_t i) { return (char *)x + i * (int64_t)dtype_size(d); }

static struct optimizer_elements elements(const struct optimizer *o, struct buffers *b, struct kinds k, int64_t first,
                                          int64_t n, bool decay) {
    return (struct optimizer_elements){n, at(b->weight, k.weight, first), k.weight, at(b->grad, k.grad, first), k.grad,
                                       {o->n_states ? at(b->state, dtype_accumulator(k.weight), first) : NULL},
                                       k.master ? at(b->master, FP32, first) : NULL, decay, NULL};
}

static struct buffers *buffers_new(struct kinds k, double multiplier) {
    struct buffers *b = calloc(1, sizeof *b);
    for (int i = 0; i < N; i++) {
        double w = rng_normal(1, 1, (uint64_t)i);
        dtype_set(b->weight, k.weight, i, w);
        dtype_set(b->master, FP32, i, w);
        dtype_set(b->grad, k.grad, i, rng_normal(1, 2, (uint64_t)i));
        dtype_set(b->state, dtype_accumulator(k.weight), i, rng_normal(1, 3, (uint64_t)i));
    }
    b->multiplier = multiplier;
    return b;
}

/* Update two sets: elements before `first` without decay, and elements from `first` on with decay. */
static void update_on(const struct device *d, const struct optimizer *o, struct buffers *b, struct kinds k,
                      int64_t first) {
    struct buffers *there;
    void *memory;
    assert_ok(d->allocate(d, sizeof *b, &memory));
    assert_ok(d->upload(d, there = memory, b, sizeof *b));
    struct optimizer_elements e[] = {elements(o, there, k, 0, first, false),
                                     elements(o, there, k, first, N - first, true)};
    struct optimizer_settings a = {.lr = 0.1, .weight_decay = 0.1, .momentum = o->n_states ? 0.9 : 0, .beta1 = 0.5,
                                   .grad_multiplier = &there->multiplier, .step = 7};
    assert_ok(optimizer_update(o, d, &a, e, 2));
    assert_ok(d->download(d, b, there, sizeof *b));
    d->release(d, memory, sizeof *b);
}

/* Results of torch.optim.SGD 2.15 in fp64: three weights with weight_decay 0.1 and one without; lr 0.1. At step t the
 * gradients are 0.5 t (0.3, -0.2, 0.7) and 0.5 t (-0.4). The first weight by hand: 1 - 0.1 (0.15 + 0.1) = 0.975. */
static const double TORCH[N_SGD][3][4] = {
    {{0x1.f333333333333p-1, -0x1.f0a3d70a3d70ap-2, 0x1.b333333333333p-3, 0x1.8a3d70a3d70a4p-1},
     {0x1.d353f7ced9168p-1, -0x1.c95e9e1b089a0p-2, 0x1.b4bc6a7ef9db2p-4, 0x1.a7ef9db22d0e6p-1},
     {0x1.9aee0f3cb3e57p-1, -0x1.82bb8800eae18p-2, -0x1.84024b33daf8fp-4, 0x1.e161e4f765fdap-1}},
    {{0x1.f333333333333p-1, -0x1.f0a3d70a3d70ap-2, 0x1.b333333333333p-3, 0x1.8a3d70a3d70a4p-1},
     {0x1.ded916872b021p-1, -0x1.d7318fc504817p-2, 0x1.1f7ced916872bp-3, 0x1.9eb851eb851ecp-1},
     {0x1.c304ff43419e3p-1, -0x1.b3c2fc69728a6p-2, 0x1.164adff822bc2p-5, 0x1.bd70a3d70a3d8p-1}}};

/* The bound: six roundings of numbers below 1 in each of three steps. */
TEST(test_sgd_is_torchs) {
    const double half = 0.5, rounding = 3 * 6 * 0x1p-53;
    for (int row = 0; row < N_SGD; row++) {
        double w[4] = {1, -0.5, 0.25, 0.75}, b[4] = {0};
        for (int t = 0; t < 3; t++) {
            double g[4] = {0.3 * (t + 1), -0.2 * (t + 1), 0.7 * (t + 1), -0.4 * (t + 1)};
            struct optimizer_settings a = {.lr = 0.1, .weight_decay = 0.1, .momentum = row ? 0 : 0.9,
                                           .grad_multiplier = &half, .step = t + 1};
            struct optimizer_elements e[] = {{3, w, FP64, g, FP64, {row ? NULL : b}, NULL, .decay = true},
                                             {1, w + 3, FP64, g + 3, FP64, {row ? NULL : b + 3}, NULL, .decay = false}};
            assert_ok(optimizer_update(ROWS[row], device_cpu(), &a, e, 2));
            for (int i = 0; i < 4; i++) assert_close(w[i], TORCH[row][t][i], rounding);
        }
    }
}

/* sign(0) is 0, and neither the multiplier nor weight decay changes a step's length. */
TEST(test_a_step_by_the_sign_has_one_length) {
    const double small = 1e-3, moved[4] = {0.75, 1.25, 1, 0.75};
    double w[4] = {1, 1, 1, 1}, g[4] = {7, -1, 0, 1e6};
    struct optimizer_settings a = {.lr = 0.25, .weight_decay = 0.1, .momentum = 0.9, .grad_multiplier = &small};
    struct optimizer_elements e = {4, w, FP64, g, FP64, {NULL}, NULL, .decay = true};
    assert_ok(optimizer_update(&optimizer_sign, device_cpu(), &a, &e, 1));
    for (int i = 0; i < 4; i++) assert_close(w[i], moved[i], 0);
}

static void assert_same_bits(const struct buffers *a, const struct buffers *b) {
    assert_memory_equal(a->weight, b->weight, sizeof a->weight);
    assert_memory_equal(a->state, b->state, sizeof a->state);
    assert_memory_equal(a->master, b->master, sizeof a->master);
    assert_memory_equal(a->grad, b->grad, sizeof a->grad);
}

/* Every dtype, with a second set that begins at an unaligned element. */
TEST(test_sgd_has_the_same_bits_on_the_device_and_the_cpu) {
    for (int row = 0; row < N_ROWS; row++)
        for (enum dtype weight = FP64; weight <= FP16; weight++)
            for (enum dtype grad = FP64; grad <= FP16; grad++)
                for (int master = 0; master <= (weight == BF16 || weight == FP16); master++) {
                    struct kinds k = {weight, grad, master};
                    struct buffers *cpu = buffers_new(k, 0.5), *device = buffers_new(k, 0.5);
                    update_on(device_cpu(), ROWS[row], cpu, k, 3333);
                    update_on(test_device(), ROWS[row], device, k, 3333);
                    assert_same_bits(device, cpu);
                    free(cpu);
                    free(device);
                }
}

/* With a master, the weight is the master rounded. The cut into two sets changes only element 1110, whose decay it
 * changes. */
TEST(test_sgd_rounds_the_master_and_does_not_depend_on_cuts) {
    struct kinds k = {BF16, FP32, true};
    for (int row = 0; row < N_ROWS; row++) {
        struct buffers *whole = buffers_new(k, 0.5), *cut = buffers_new(k, 0.5);
        update_on(test_device(), ROWS[row], whole, k, 1111);
        update_on(test_device(), ROWS[row], cut, k, 1110);
        for (int i = 0; i < N; i++) {
            double rounded = dtype_get(whole->weight, BF16, i), master = dtype_get(whole->master, FP32, i);
            assert_close(rounded, master, fabs(master) * 0x1p-8);
            if (i != 1110) assert_close(master, dtype_get(cut->master, FP32, i), 0);
        }
        free(whole);
        free(cut);
    }
}

TEST(test_sgd_changes_nothing_when_the_multiplier_is_nan) {
    struct kinds k = {FP32, FP32, false};
    for (int row = 0; row < N_ROWS; row++) {
        struct buffers *b = buffers_new(k, NAN), *old = buffers_new(k, NAN);
        update_on(test_device(), ROWS[row], b, k, 5);
        assert_same_bits(b, old);
        free(b);
        free(old);
    }
}

/* Is this word of OPTIMIZER_WORDS, which "|" divides, the choice's? */
static bool is_word_of(enum optimizer_choice choice, const char *word) {
    const char *at = OPTIMIZER_WORDS;
    size_t n = strlen(word);
    for (int i = 0; i < (int)choice; i++) at += strcspn(at, "|"), at += *at == '|';
    return strcspn(at, "|") == n && !memcmp(at, word, n);
}

/* The row of a choice of --optimizer, and the row of a name in a checkpoint. A new row changes nothing here. */
TEST(test_optimizers_are_found_by_choice_and_by_name) {
    assert_ptr_equal(optimizer_of(OPTIMIZER_ADAMW, 0), &optimizer_adamw);
    assert_ptr_equal(optimizer_of(OPTIMIZER_SGD, 0.9), &optimizer_sgd);
    assert_ptr_equal(optimizer_of(OPTIMIZER_SGD, 0), &optimizer_sgd_plain);
    assert_ptr_equal(optimizer_named("sgd"), &optimizer_sgd_plain);
    assert_ptr_equal(optimizer_named("sgd-momentum"), &optimizer_sgd);
    assert_null(optimizer_named("momentum"));
    assert_true(is_word_of(OPTIMIZER_ADAMW, "adamw"));
    assert_true(is_word_of(OPTIMIZER_SGD, "sgd"));
    assert_true(is_word_of(OPTIMIZER_MUON, "muon"));
}

/* ---- Muon: whole matrices ---- */
/* Memory of one matrix on a device: at most `MOST` elements of fp64, and scratch. */
enum { MOST = 4096, SCRATCH = 33 << 20 };
struct arrays { double w[MOST], g[MOST], m[MOST], u[MOST], spare[MOST], gram[2 * MOST], one, numbers[2]; };

struct update { struct muon_shape shape; double momentum, beta1, lr, adjust, weight_decay; int steps; };

static enum status iterate_on(const struct device *d, const struct update *u, struct arrays *there, void *scratch) {
    const int64_t reduce = round_up(reduce_work(d->kind), 256);
    struct newton_schulz m = {1, false, there->spare, there->gram, (char *)scratch + reduce, there->numbers, scratch};
    return newton_schulz(d, &u->shape, u->steps, there->u, &m);
}

/* One update of a whole matrix, as muon/ makes it. */
static enum status update_matrix(const struct device *d, const struct update *u, struct arrays *there, void *scratch) {
    const enum dtype t = u->shape.dtype;
    const struct optimizer_settings a = {.momentum = u->momentum, .beta1 = u->beta1, .grad_multiplier = &there->one};
    const struct optimizer_settings b = {.lr = u->lr * u->adjust, .weight_decay = u->weight_decay / u->adjust,
                                         .grad_multiplier = &there->one};
    struct optimizer_elements e = {.n = u->shape.rows * u->shape.columns, .weight = there->u, .weight_dtype = t,
                                   .grad = there->g, .grad_dtype = t, .state = {there->m}};
    TRY(optimizer_update(&optimizer_muon_momentum, d, &a, &e, 1));
    TRY(iterate_on(d, u, there, scratch));
    e.weight = there->w, e.grad = there->u, e.decay = true;
    return optimizer_update(&optimizer_muon_step, d, &b, &e, 1);
}

static void muon_on(const struct device *d, const struct update *u, struct arrays *here) {
    void *there, *scratch;
    assert_ok(d->allocate(d, sizeof *here, &there));
    assert_ok(d->allocate(d, SCRATCH, &scratch));
    assert_ok(d->upload(d, there, here, sizeof *here));
    assert_ok(update_matrix(d, u, there, scratch));
    assert_ok(d->download(d, here, there, sizeof *here));
    d->release(d, there, sizeof *here);
    d->release(d, scratch, SCRATCH);
}

/* Three steps of torch.optim.Muon 2.15 with its rounding to bf16 taken out, in fp64: the first two weights, the last
 * two and their sum. w = sin(1 + i), g = cos(0.7 i + t) (1 + 0.1 row), element i = row columns + column; lr 0.1. A wide
 * matrix with Nesterov and match_rms_adamw, a tall one without and original, a square one with spectral_unclamped. */
static const struct { struct update u; double w[5]; } TORCH_MUON[] = {
    {{{3, 5, FP64}, 0.95, 0.95, 0.1, 0.4472135954999579, 0.1, 5},
     {0x1.85c93c5faf815p-1, 0x1.afd8d1b9fbcc2p-1, 0x1.faf34482f3254p-1, 0x1.3e995d0b927d3p-1, 0x1.f36984f628dcep+0}},
    {{{5, 3, FP64}, 0.95, 1, 0.1, 1.2909944487358056, 0.1, 5},
     {0x1.61b119f27ce89p-1, 0x1.b8fd0dc330ebbp-1, 0x1.1a4b6214e3231p+0, 0x1.77683c7f565b7p-1, 0x1.13d561d78f7a8p+1}},
    {{{4, 4, FP64}, 0.95, 0.95, 0.1, 1, 0, 5},
     {0x1.94bc04f22ca73p-1, 0x1.e91e91b4bd9c6p-1, 0x1.8b8e567c679cfp-1, -0x1.d83236812bb2fp-3, 0x1.0889cd579324fp+1}}};

TEST(test_muon_is_torchs) {
    for (int k = 0; k < (int)(sizeof TORCH_MUON / sizeof *TORCH_MUON); k++) {
        const struct update *u = &TORCH_MUON[k].u;
        int n = (int)(u->shape.rows * u->shape.columns);
        struct arrays *a = calloc(1, sizeof *a);
        double sum = 0;
        a->one = 1;
        for (int i = 0; i < n; i++) a->w[i] = sin(1 + i);
        for (int t = 0; t < 3; t++) {
            for (int i = 0; i < n; i++) a->g[i] = cos(0.7 * i + t) * (1 + 0.1 * (double)(i / u->shape.columns));
            muon_on(test_device(), u, a);
        }
        for (int i = 0; i < n; i++) sum += a->w[i];
        const double found[5] = {a->w[0], a->w[1], a->w[n - 2], a->w[n - 1], sum};
        /* matrices are of rank 2, and small singular values are rounding, enlarged up to 485 times a step */
        for (int i = 0; i < 5; i++) assert_close(found[i], TORCH_MUON[k].w[i], 1e-12);
        free(a);
    }
}

/* A device sums in another order: two roundings of fp32, 2^-23 each, enlarged 485 times. */
TEST(test_newton_schulz_is_that_of_the_cpu_on_the_device) {
    const struct muon_shape shapes[] = {{16, 16, FP32}, {24, 40, FP32}, {64, 32, FP32}, {1, 7, FP32}, {24, 40, FP64}};
    for (int k = 0; k < (int)(sizeof shapes / sizeof *shapes); k++) {
        struct update u = {shapes[k], 0.95, 0.95, 0.1, 1, 0.1, 5};
        struct arrays *cpu = calloc(1, sizeof *cpu), *device = calloc(1, sizeof *device);
        cpu->one = 0.5;
        for (int i = 0; i < u.shape.rows * u.shape.columns; i++) {
            dtype_set(cpu->w, u.shape.dtype, i, rng_normal(1, 1, (uint64_t)i));
            dtype_set(cpu->g, u.shape.dtype, i, rng_normal(1, 2, (uint64_t)i));
            dtype_set(cpu->m, u.shape.dtype, i, rng_normal(1, 3, (uint64_t)i));
        }
        *device = *cpu;
        muon_on(device_cpu(), &u, cpu);
        muon_on(test_device(), &u, device);
        for (int i = 0; i < u.shape.rows * u.shape.columns; i++)
            assert_close(dtype_get(device->w, u.shape.dtype, i), dtype_get(cpu->w, u.shape.dtype, i),
                         u.shape.dtype == FP32 ? 2 * 485 * 0x1p-23 : 2 * 485 * 0x1p-52);
        free(cpu);
        free(device);
    }
}

/* The singular values of O lie between 0.68 and 1.14 if those of u / |u| lie between 0.008 and 1: O O^T has them
 * squared on its diagonal, for a diagonal u. */
TEST(test_newton_schulz_brings_singular_values_near_1) {
    struct update u = {{4, 6, FP64}, 0, 1, 0, 1, 0, 5};
    const double values[4] = {1, 0.5, 0.1, 0.01};
    struct arrays *a = calloc(1, sizeof *a);
    a->one = 1;
    for (int i = 0; i < 4; i++) a->g[6 * i + i] = values[i];
    muon_on(test_device(), &u, a);
    for (int i = 0; i < 24; i++) {
        bool diagonal = i / 6 == i % 6;
        assert_true(diagonal ? a->u[i] > 0.68 && a->u[i] < 1.14 : fabs(a->u[i]) < 1e-15);
    }
    free(a);
}

/* A gradient of zeros has no directions, and gives an O of zeros, not of NaN. */
TEST(test_newton_schulz_of_zeros_is_zero) {
    struct update u = {{4, 6, FP64}, 0.95, 0.95, 0.1, 1, 0, 5};
    struct arrays *a = calloc(1, sizeof *a);
    a->one = a->w[3] = 1;
    muon_on(test_device(), &u, a);
    for (int i = 0; i < 24; i++) assert_close(a->w[i], i == 3, 0);
    free(a);
}

/* Muon's iteration needs 4 n^2 N + 2 n^3 operations: 2 n n N for A, 2 n n n for A A, 2 n n N for B X. */
TEST(test_newton_schulz_counts_its_products) {
    const struct muon_shape wide = {3, 5, FP32}, tall = {5, 3, FP32};
    assert_close(newton_schulz_flops(&wide, 5), 5 * (2 * 3 * 3 * 5 + 2 * 3 * 3 * 3 + 2 * 3 * 3 * 5), 0);
    assert_close(newton_schulz_flops(&tall, 5), newton_schulz_flops(&wide, 5), 0);
    const struct cost one = newton_schulz_cost(&wide), other = newton_schulz_cost(&tall);
    assert_close(5 * one.flops, newton_schulz_flops(&wide, 5), 0);   /* of the products that run */
    assert_close(5 * other.flops, newton_schulz_flops(&tall, 5), 0);
    assert_int_equal(one.n_products, 3);
    assert_int_equal(one.product[0].k + one.product[2].n + other.product[0].k + other.product[2].m, 4 * 5);
}

TESTS(unit_test(test_sgd_is_torchs), unit_test(test_a_step_by_the_sign_has_one_length),
      unit_test(test_sgd_has_the_same_bits_on_the_device_and_the_cpu),
      unit_test(test_sgd_rounds_the_master_and_does_not_depend_on_cuts),
      unit_test(test_sgd_changes_nothing_when_the_multiplier_is_nan),
      unit_test(test_optimizers_are_found_by_choice_and_by_name),
      unit_test(test_muon_is_torchs), unit_test(test_newton_schulz_is_that_of_the_cpu_on_the_device),
      unit_test(test_newton_schulz_brings_singular_values_near_1), unit_test(test_newton_schulz_of_zeros_is_zero),
      unit_test(test_newton_schulz_counts_its_products))
