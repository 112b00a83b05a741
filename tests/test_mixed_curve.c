/* ranks: 1  device: cpu  threads: 1
 *
 * Training in 16 bits, and with products in 8, learns as fp32 does. 200 steps on the demonstration text start from the
 * same weights, with the same batches. Single losses are noisy, so the test compares means over 10 steps, at every
 * step, within 2%. */
#include "driver/recipe.h"
#include "mixed_precision/fp8.h"
#include "mixed_precision/mixed_precision.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "lib/types/types.h"
#include "tests/combinations.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 200, SMOOTHED = 10 };

static struct plan curve_plan(enum plan_precision precision, bool fp8) {
    struct plan p = parity_plan();
    p.layers = 2, p.hidden = 64, p.heads = 4, p.seq = 32, p.vocab = 256, model_options(&p)->dropout = 0;
    p.steps = STEPS, p.warmup = 20, p.global_batch = p.micro_batch = 8;
    p.lr = 1e-3, p.min_lr = 1e-4, p.eps = 1e-8, p.clip = 1;
    p.precision = precision;
    fp8_options(&p)->on = fp8;
    mixed_precision_options(&p)->init = 65536, mixed_precision_options(&p)->min = 1,
    mixed_precision_options(&p)->window = 1000, mixed_precision_options(&p)->hysteresis = 2;
    return p;
}

static enum status train(struct run *r, struct data_file *file, double loss[STEPS]) {
    struct data_split all, none;
    TRY(data_split_tail(file, r->plan.seq, 0, &all, &none));
    run_set_data(r, &all, &none);
    for (int i = 0; i < STEPS; i++) {
        TRY(run_step(r));
        loss[i] = r->last.loss;
    }
    return OK;
}

static enum status curve_of(enum plan_precision precision, bool fp8, double loss[STEPS]) {
    struct run r;
    struct data_file *file = NULL;
    struct plan p = curve_plan(precision, fp8);
    TRY(plan_settle(&p, 1));
    enum status status = run_create(&r, &train_recipe, &p, false);
    if (status == OK) status = data_open("configs/demo.txt", &file);
    if (status == OK) status = train(&r, file, loss);
    data_close(&file);
    run_destroy(&r);
    return status;
}

static double mean_until(const double loss[STEPS], int step) {
    double sum = 0;
    for (int i = 0; i < SMOOTHED; i++) sum += loss[step - i];
    return sum / SMOOTHED;
}

static void check_curve(enum plan_precision precision, bool fp8) {
    static double reference[STEPS];
    double loss[STEPS];
    if (reference[0] == 0) assert_ok(curve_of(PRECISION_FP32, false, reference));
    assert_ok(curve_of(precision, fp8, loss));
    assert_true(reference[STEPS - 1] < 3);                           /* from ln 256 = 5.5: the curve must
                                                                      * fall */
    for (int i = SMOOTHED - 1; i < STEPS; i++) {
        double expected = mean_until(reference, i);
        assert_close(mean_until(loss, i), expected, 0.02 * expected);
    }
}

TEST(test_bf16_learns_as_fp32_does) {
    check_curve(PRECISION_BF16, false);
}
TEST(test_fp16_learns_as_fp32_does) {
    check_curve(PRECISION_FP16, false);
}
TEST(test_fp8_learns_as_fp32_does) {
    check_curve(PRECISION_FP32, true);
    check_curve(PRECISION_BF16, true);
}

/* ---- no layout that works is refused ----
 * The types of combinations of techniques (combinations.h) on 1, 2, 4 and 8 ranks are compiled for some rank of each,
 * without running a kernel. They are a sample by number (LONG=1: 20 times as many). If a technique or an op's shape
 * refuses with E_CONFIG, the combination is no layout. */

enum { CANDIDATES = 4000 };          /* per number of ranks */

static bool is_candidate(int k, int total) {
    double n = getenv("LONG") ? 20.0 * CANDIDATES : CANDIDATES;
    return (uint32_t)k * UINT32_C(2654435761) < UINT32_MAX * fmin(1, n / total);
}

enum verdict { ILLEGAL, TYPED, REFUSED };
static enum verdict verdict_on(const struct plan *p, int rank) {
    struct run r = {0};
    enum status status = run_compile(&r, &train_recipe, p, rank, NULL, NULL);
    run_destroy(&r);
    if (status == E_INTERNAL) dprintf(STDERR_FILENO, "%s\n", status_text());
    status_clear();
    return status == OK ? TYPED : status == E_INTERNAL ? REFUSED : ILLEGAL;
}

static void go_through(int ranks, int n[3]) {
    combinations_of_world(ranks);
    int total = combination_count(N_CHOICES);
    for (int k = 0; k < total; k++) {
        if (!is_candidate(k, total)) continue;
        struct combination c = combination_of(k);
        struct plan p;
        if (combination_plan(&c, &p)) n[verdict_on(&p, k / 7 % ranks)]++;
        else n[ILLEGAL]++;
        status_clear();
    }
}

TEST(test_types_refuse_no_legal_layout) {
    int n[] = {[ILLEGAL] = 0, [TYPED] = 0, [REFUSED] = 0};
    for (int ranks = 1; ranks <= 8; ranks *= 2) go_through(ranks, n);
    if (getenv("LONG"))
        dprintf(STDERR_FILENO, "%d layouts typed, %d refused; %d are none\n", n[TYPED], n[REFUSED], n[ILLEGAL]);
    assert_true(n[TYPED] > 1000);
    assert_int_equal(n[REFUSED], 0);
}

TESTS(unit_test(test_bf16_learns_as_fp32_does), unit_test(test_fp16_learns_as_fp32_does),
      unit_test(test_fp8_learns_as_fp32_does), unit_test(test_types_refuse_no_legal_layout))
