/* ranks: 1  device: any */
#include "lib/base/rng.h"
#include "lib/ops/optimizer.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static const struct optimizer *const ROWS[] = {&optimizer_sgd, &optimizer_sgd_plain};
enum { N_ROWS = 2, N = 12304 };          /* N: several chunks of the CUDA kernel, and a remainder after its vectors */

/* Arrays have room for doubles; smaller types use only the front. */
struct buffers { double weight[N], grad[N], state[N], master[N], multiplier; };
struct kinds { enum dtype weight, grad; bool master; };

static void *at(void *x, enum dtype d, int64_t i) { return (char *)x + i * (int64_t)dtype_size(d); }

static struct optimizer_elements elements(const struct optimizer *o, struct buffers *b, struct kinds k, int64_t first,
                                          int64_t n, bool decay) {
    return (struct optimizer_elements){n, at(b->weight, k.weight, first), k.weight, at(b->grad, k.grad, first), k.grad,
                                       {o->n_states ? at(b->state, dtype_accumulator(k.weight), first) : NULL},
                                       k.master ? at(b->master, FP32, first) : NULL, decay};
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
    struct optimizer_settings a = {.lr = 0.1, .weight_decay = 0.1, .momentum = o->n_states ? 0.9 : 0,
                                   .grad_multiplier = &there->multiplier, .step = 7};
    assert_ok(optimizer_update(o, d, &a, e, 2));
    assert_ok(d->download(d, b, there, sizeof *b));
    d->release(d, memory, sizeof *b);
}

/* Results of torch.optim.SGD 2.15 in fp64: three weights with weight_decay 0.1 and one without; lr 0.1. At step t the
 * gradients are 0.5 t (0.3, -0.2, 0.7) and 0.5 t (-0.4). The first weight by hand: 1 - 0.1 (0.15 + 0.1) = 0.975. */
static const double TORCH[N_ROWS][3][4] = {
    {{0x1.f333333333333p-1, -0x1.f0a3d70a3d70ap-2, 0x1.b333333333333p-3, 0x1.8a3d70a3d70a4p-1},
     {0x1.d353f7ced9168p-1, -0x1.c95e9e1b089a0p-2, 0x1.b4bc6a7ef9db2p-4, 0x1.a7ef9db22d0e6p-1},
     {0x1.9aee0f3cb3e57p-1, -0x1.82bb8800eae18p-2, -0x1.84024b33daf8fp-4, 0x1.e161e4f765fdap-1}},
    {{0x1.f333333333333p-1, -0x1.f0a3d70a3d70ap-2, 0x1.b333333333333p-3, 0x1.8a3d70a3d70a4p-1},
     {0x1.ded916872b021p-1, -0x1.d7318fc504817p-2, 0x1.1f7ced916872bp-3, 0x1.9eb851eb851ecp-1},
     {0x1.c304ff43419e3p-1, -0x1.b3c2fc69728a6p-2, 0x1.164adff822bc2p-5, 0x1.bd70a3d70a3d8p-1}}};

/* The bound: six roundings of numbers below 1 in each of three steps. */
TEST(test_sgd_is_torchs) {
    const double half = 0.5, rounding = 3 * 6 * 0x1p-53;
    for (int row = 0; row < N_ROWS; row++) {
        double w[4] = {1, -0.5, 0.25, 0.75}, b[4] = {0};
        for (int t = 0; t < 3; t++) {
            double g[4] = {0.3 * (t + 1), -0.2 * (t + 1), 0.7 * (t + 1), -0.4 * (t + 1)};
            struct optimizer_settings a = {.lr = 0.1, .weight_decay = 0.1, .momentum = row ? 0 : 0.9,
                                           .grad_multiplier = &half, .step = t + 1};
            struct optimizer_elements e[] = {{3, w, FP64, g, FP64, {row ? NULL : b}, NULL, true},
                                             {1, w + 3, FP64, g + 3, FP64, {row ? NULL : b + 3}, NULL, false}};
            assert_ok(optimizer_update(ROWS[row], device_cpu(), &a, e, 2));
            for (int i = 0; i < 4; i++) assert_close(w[i], TORCH[row][t][i], rounding);
        }
    }
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
}

TESTS(unit_test(test_sgd_is_torchs), unit_test(test_sgd_has_the_same_bits_on_the_device_and_the_cpu),
      unit_test(test_sgd_rounds_the_master_and_does_not_depend_on_cuts),
      unit_test(test_sgd_changes_nothing_when_the_multiplier_is_nan),
      unit_test(test_optimizers_are_found_by_choice_and_by_name))
