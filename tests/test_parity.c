/* ranks: 1 2 4  more: 8  device: cpu
 *
 * Promise 1, the same numbers in every layout, and promise 2, predicted bytes are measured bytes: every layout of this
 * number of ranks equals the serial run. The newer pipeline schedules have one size of microbatches each;
 * LONG=1: all sizes. PARITY=text runs only the layouts whose name contains it. */
#include "driver/recipe.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tally { const struct reference *reference; bool (*accept)(const struct difference *); int seen, failed; };

static void report(const struct plan *p, const struct difference *d, enum status status) {
    if (!comm_is_rank_0()) return;
    fprintf(stderr, "%s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B wire %.1e padding %g\n",
            layout_name(p), status_name(status), d->loss, d->norm, d->grad, d->weight, d->memory, d->wire, d->padding);
}

static void try_layout(void *self, const struct plan *p) {
    struct tally *t = self;
    struct difference d;
    const char *filter = getenv("PARITY");
    if (filter && !strstr(layout_name(p), filter)) return;
    enum status status = layout_compare(p, t->reference, &d);
    bool ok = agree_all(status == OK && t->accept(&d));
    t->seen++;
    t->failed += !ok;
    if (!ok || filter) report(p, &d, status);
    status_report();
}

static bool bytes_agree(const struct difference *d) { return d->memory == 0 && d->wire < 1e-12 && d->padding == 0; }

/* ---- fp64: everything within 1e-10 ---- */
static bool within_1e_10(const struct difference *d) {
    return d->loss < 1e-10 && d->norm < 1e-10 && d->grad < 1e-10 && d->weight < 1e-10 && bytes_agree(d);
}

TEST(test_every_layout_equals_serial_fp64) {
    struct reference ref;
    struct plan plan = parity_plan();
    struct tally t = {&ref, within_1e_10, 0, 0};
    enum status status = reference_init(&ref, &plan);
    if (agree_all(status == OK)) layouts_each(&plan, comm_world_size(), try_layout, &t);
    reference_fini(&ref);
    assert_ok(status);
    if (comm_is_rank_0())
        printf("    %d layouts of %d ranks equal the serial run\n", t.seen - t.failed, comm_world_size());
    assert_true(getenv("PARITY") || t.seen >= 10);
    assert_int_equal(t.failed, 0);
}

/* The materialised attention is another op with the same mathematics, so one layout is enough to test it composed. */
TEST(test_materialised_attention_equals_blocked_serial) {
    struct reference ref;
    struct plan plan = parity_plan();
    struct difference d = {0};
    enum status status = reference_init(&ref, &plan);
    model_options(&plan)->attention = ATTENTION_MATERIALISED;
    plan.mesh.tp = comm_world_size() > 1 ? 2 : 1;
    plan.mesh.dp = comm_world_size() / plan.mesh.tp;
    plan.micro_batch = 1;
    if (status == OK) status = plan_settle(&plan, comm_world_size());
    if (agree_all(status == OK)) status = layout_compare(&plan, &ref, &d);
    reference_fini(&ref);
    assert_ok(status);
    assert_true(within_1e_10(&d));
}

/* ---- fp32 ----
 * A computed sum of n terms is off by at most n u relative to the sum of magnitudes, u = 2^-24. The longest sums here
 * have 131 terms (the vocabulary), a gradient passes at most 15 steps a layer through 8 layers and back: relative
 * errors stay below 2 x 8 x 15 x 131 u, worst case. The weights: an AdamW step moves a weight by at most lr (beta1 =
 * 0.9, beta2 = 0.95), so two runs are at most 2 lr apart a step. */
static bool within_fp32_bounds(const struct difference *d) {
    const double u = 1.0 / (1 << 24), bound = 2.0 * 8 * 15 * 131 * u, lr = 1e-2;
    return d->first_loss < bound && d->first_grad < bound && d->weight_absolute <= 2 * lr * PARITY_STEPS &&
           bytes_agree(d);
}

static void only_small_microbatches(void *self, const struct plan *p) {
    if (p->micro_batch == 2) try_layout(self, p);
}

TEST(test_layouts_equal_serial_within_fp32_bounds) {
    struct reference ref;
    struct plan plan = parity_plan();
    plan.precision = PRECISION_FP32;
    struct tally t = {&ref, within_fp32_bounds, 0, 0};
    enum status status = reference_init(&ref, &plan);
    if (agree_all(status == OK)) layouts_each(&plan, comm_world_size(), only_small_microbatches, &t);
    reference_fini(&ref);
    assert_ok(status);
    assert_true(getenv("PARITY") || t.seen >= 2);
    assert_int_equal(t.failed, 0);
}

/* ---- the same layout twice: the same bits ---- */
struct twice { const struct reference *reference; int differing; bool failed; };

static void run_twice(void *self, const struct plan *p) {
    struct twice *t = self;
    struct difference first, second;
    if (p->micro_batch != 2 || pp_options(p)->schedule != SCHEDULE_1F1B || pp_options(p)->split[0]) return;
    bool ok = layout_compare(p, t->reference, &first) == OK && layout_compare(p, t->reference, &second) == OK;
    if (!agree_all(ok)) t->failed = true;
    if (!agree_all(first.bits == second.bits)) t->differing++;
}

TEST(test_same_layout_twice_gives_the_same_bits) {
    struct reference ref;
    struct plan plan = parity_plan();
    plan.precision = PRECISION_FP32;
    struct twice t = {&ref, 0, false};
    enum status status = reference_init(&ref, &plan);
    if (agree_all(status == OK)) layouts_each(&plan, comm_world_size(), run_twice, &t);
    reference_fini(&ref);
    assert_ok(status);
    assert_false(t.failed);
    assert_int_equal(t.differing, 0);
}

TESTS(unit_test(test_every_layout_equals_serial_fp64), unit_test(test_materialised_attention_equals_blocked_serial),
      unit_test(test_layouts_equal_serial_within_fp32_bounds), unit_test(test_same_layout_twice_gives_the_same_bits))
