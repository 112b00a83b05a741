/* ranks: 1 2  more: 4 8  device: cpu  threads: 1
 *
 * Promise 1 in 16 bits: layouts equal the serial run in the same precision, in first-step losses and gradients, within
 * a bound that follows from the dtype and the lengths of sums. Promise 2, bytes, holds exactly. PARITY=text selects by
 * name.
 *
 * The bound. A number is rounded to 16 bits whenever it is stored; inside an op sums are in fp32, whose errors are
 * smaller by 2^-13 at least and are left out. u = 2^-8 for bf16, 2^-11 for fp16. How many roundings N lie on the
 * longest way from the tokens to a gradient?
 *   forward, per layer:   ln1 qkv att proj res1 ln2 fc gelu fc2 res2                                     10
 *                         with tp, proj and fc2 are sums of up to 8 partial results, added pairwise     + 14
 *   backward, per layer:  as many values again; with tp two sums (qkv, fc) of up to 8 parts             + 24
 *   8 layers, and embedding, position, final layernorm, logits and the gradient of the logits           +  5
 *   the gradient itself: one addition per microbatch and replica, at most 16                            + 16
 * so N = 8 x 48 + 21 = 405. In the worst case all errors have one sign: N u > 1 for bf16, which says nothing. But
 * roundings to nearest are as good as random, and of N independent errors of at most u the sum exceeds q sqrt(N) u with
 * a probability below 2 exp(-q^2 / 2) (Hoeffding's inequality, as in Higham and Mary 2019, "A new approach to
 * probabilistic rounding error analysis"). q = 6 makes that 3e-8 an element. Relative to the largest element of the
 * tensor; two runs that differ make 2 N errors:
 *
 *   bound = q sqrt(2 N) u = 6 sqrt(810) u = 171 u                      bf16 0.67, fp16 0.083
 *
 * bf16's is loose, but a missing term, a sum taken twice, a scale left in are off by 1 or more.
 * The loss. At the start a logit is the product of a row of wte (16 numbers of standard deviation 0.02) and a
 * normalised vector (norm 4), so at most 0.02 x 4 x 6 = 0.5 (six standard deviations), and the loss moves at most by
 * twice the largest logit's error, itself at most 6 sqrt(2 x 197) u x 0.5 (the forward half of the roundings); the loss
 * is ln 131 = 4.9:
 *
 *   bound = 2 x 6 sqrt(394) 0.5 u / 4.9 = 24 u                          bf16 0.095, fp16 0.012
 *
 * The weights. AdamW moves a master by at most lr a step (beta1 = 0.9, beta2 = 0.95), so two runs are at most 2 lr k
 * apart after k steps, and rounding to 16 bits, weights being below 1 + k lr, adds at most 2 u (1 + k lr). */
#include "driver/recipe.h"
#include "mixed_precision/mixed_precision.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trial { const struct reference *reference; double u; int seen, failed; };

static bool is_within_bounds(const struct difference *d, double u) {
    const double k = PARITY_STEPS, lr = 1e-2, q = 6;
    double gradient = q * sqrt(2 * 405) * u, loss = 2 * q * sqrt(2 * 197) * 0.5 * u / log(131);
    return d->first_loss < loss && d->first_grad < gradient &&
           d->weight_absolute <= 2 * lr * k + 2 * u * (1 + k * lr) && d->memory == 0 && d->wire < 1e-12 &&
           d->padding == 0;
}

static void report(const struct plan *p, const struct difference *d, enum status status) {
    if (!comm_is_rank_0()) return;
    fprintf(stderr, "%s: %s, first loss %.1e first grad %.1e weight %.1e memory %g B wire %.1e padding %g\n",
            layout_name(p), status_name(status), d->first_loss, d->first_grad, d->weight_absolute, d->memory, d->wire,
            d->padding);
}

static void compare_one(struct trial *t, const struct plan *p) {
    struct difference d = {0};
    enum status status = layout_compare(p, t->reference, &d);
    bool ok = agree_all(status == OK && is_within_bounds(&d, t->u));
    t->seen++;
    t->failed += !ok;
    if (!ok) report(p, &d, status);
    status_report();
}

/* A sixth of all layouts: every factorisation, gpipe with microbatches of 1 (the longest sums of gradients), 1f1b with
 * 4. */
static bool is_chosen(const struct plan *p) {
    return !pp_options(p)->split[0] && p->micro_batch == (pp_options(p)->schedule == SCHEDULE_GPIPE ? 1 : 4);
}

static void try_layout(void *self, const struct plan *p) {
    const char *filter = getenv("PARITY");
    if (filter ? strstr(layout_name(p), filter) != NULL : is_chosen(p)) compare_one(self, p);
}

static struct plan mixed_plan(enum plan_precision precision) {
    struct plan p = parity_plan();
    p.precision = precision;
    mixed_precision_options(&p)->init = 4096; /* no gradient of this model is above 16: no overflow */
    mixed_precision_options(&p)->min = 1;
    mixed_precision_options(&p)->window = 1000;
    mixed_precision_options(&p)->hysteresis = 2;
    return p;
}

static void check_layouts(const struct plan *plan, double u) {
    struct reference ref;
    struct trial t = {&ref, u, 0, 0};
    enum status status = reference_init(&ref, plan);
    if (agree_all(status == OK)) layouts_each(plan, comm_world_size(), try_layout, &t);
    reference_fini(&ref);
    assert_ok(status);
    assert_true(getenv("PARITY") || t.seen >= 2);
    assert_int_equal(t.failed, 0);
}

TEST(test_layouts_equal_serial_within_bf16_bounds) {
    struct plan p = mixed_plan(PRECISION_BF16);
    check_layouts(&p, 0x1p-8);
}

TEST(test_layouts_equal_serial_within_fp16_bounds) {
    struct plan p = mixed_plan(PRECISION_FP16);
    check_layouts(&p, 0x1p-11);
}

TEST(test_layouts_equal_serial_with_fp32_gradients) {
    struct plan p = mixed_plan(PRECISION_BF16);
    mixed_precision_options(&p)->grad_fp32 = 1;
    check_layouts(&p, 0x1p-8);
}

/* ---- with every other technique ---- */
static void check_companions(const struct plan *plan, double u) {
    struct reference ref;
    struct trial t = {&ref, u, 0, 0};
    enum status status = reference_init(&ref, plan);
    for (int i = 0; i < N_COMPANIES && agree_all(status == OK); i++) {
        struct plan p = layout_in_company(*plan, i);
        status = plan_settle(&p, comm_world_size());
        if (status == OK) compare_one(&t, &p);
    }
    reference_fini(&ref);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

TEST(test_every_technique_in_bf16) {
    struct plan p = mixed_plan(PRECISION_BF16);
    check_companions(&p, 0x1p-8);
}

TEST(test_every_technique_in_fp16_with_fp32_gradients) {
    struct plan p = mixed_plan(PRECISION_FP16);
    mixed_precision_options(&p)->grad_fp32 = 1;
    check_companions(&p, 0x1p-11);
}

/* ---- the same layout twice: the same bits ---- */
static void run_twice(void *self, const struct plan *p) {
    struct trial *t = self;
    struct difference first, second;
    if (p->micro_batch != 4 || !is_chosen(p)) return;
    bool ok = layout_compare(p, t->reference, &first) == OK && layout_compare(p, t->reference, &second) == OK;
    t->seen++;
    if (!agree_all(ok && first.bits == second.bits)) t->failed++;
}

TEST(test_same_layout_twice_gives_the_same_bits_in_fp16) {
    struct reference ref;
    struct plan p = mixed_plan(PRECISION_FP16);
    struct trial t = {&ref, 0, 0, 0};
    enum status status = reference_init(&ref, &p);
    if (agree_all(status == OK)) layouts_each(&p, comm_world_size(), run_twice, &t);
    reference_fini(&ref);
    assert_ok(status);
    assert_true(t.seen >= 1);
    assert_int_equal(t.failed, 0);
}

TESTS(unit_test(test_layouts_equal_serial_within_bf16_bounds), unit_test(test_layouts_equal_serial_within_fp16_bounds),
      unit_test(test_layouts_equal_serial_with_fp32_gradients), unit_test(test_every_technique_in_bf16),
      unit_test(test_every_technique_in_fp16_with_fp32_gradients),
      unit_test(test_same_layout_twice_gives_the_same_bits_in_fp16))
