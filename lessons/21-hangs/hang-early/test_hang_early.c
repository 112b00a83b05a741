/* ranks: 2  device: cpu  threads: 1
 *
 * fp16 with a loss scale that doubles after every two steps, so that it overflows now and then, as in lesson 08. tp
 * shards most gradients: an overflow may be on one rank only. The serial run in fp16 is the reference. Its losses
 * differ by rounding (2^-11 for each number that is stored), its skipped steps do not. */
#include "driver/recipe.h"
#include "mixed_precision/mixed_precision.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>

enum { STEPS = 24 };
static const double LOSS_BOUND = 0.01;

struct steps { enum status status; int n; double loss[STEPS]; bool skipped[STEPS]; };
static struct steps serial, two;

static void train(struct steps *s, int tp) {
    static struct run run[2];
    struct run *r = &run[tp - 1];
    struct plan p = parity_plan();
    struct mixed_precision_options *o = mixed_precision_options(&p);
    p.precision = PRECISION_FP16;
    p.mesh.tp = tp;
    p.lr = 1e-3;
    o->init = 131072, o->window = 2, o->hysteresis = 1;
    s->status = plan_settle(&p, tp);
    if (s->status == OK) s->status = run_create(r, &train_recipe, &p, WATCH_NOTHING);
    if (s->status == OK) s->status = layout_use_demo(r);
    for (; s->status == OK && s->n < STEPS; s->n++) {
        s->status = run_step(r);
        s->loss[s->n] = r->last.loss;
        s->skipped[s->n] = r->skipped;
    }
}

/* Trained once: after a hang the ranks have lost each other. */
static const struct steps *trained(void) {
    static bool done;
    if (!done) done = true, train(&serial, 1), train(&two, 2);
    return &two;
}

static const struct steps *ended(void) {
    const struct steps *s = trained();
    if (s->status != OK) fail_msg("step %d did not end, so there is nothing to compare", s->n);
    return s;
}

TEST(test_hang_early_ends) {
    const struct steps *s = trained();
    int last = s->n > 1 ? s->n - 1 : 0;
    assert_ok(serial.status);
    if (s->status != OK)
        fprintf(stderr, "tp 2 hangs, or fails, at step %d; in step %d this rank %s:\n", s->n, last,
                s->skipped[last - (last > 0)] ? "skipped the update" : "updated");
    assert_ok(s->status);
}

TEST(test_hang_early_skips_together) {
    const struct steps *s = ended();
    for (int i = 0; i < STEPS; i++)
        if (s->skipped[i] != serial.skipped[i])
            fail_msg("step %d: this rank %s, and the serial run %s", i + 1, s->skipped[i] ? "skips it" : "updates",
                     serial.skipped[i] ? "skips it" : "updates");
}

TEST(test_hang_early_losses) {
    const struct steps *s = ended();
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(s->loss[i] - serial.loss[i]) <= LOSS_BOUND * serial.loss[i]))
            fail_msg("step %d: it ends, and the loss is %.4f; the serial run's is %.4f", i + 1, s->loss[i],
                     serial.loss[i]);
}

TESTS(unit_test(test_hang_early_ends), unit_test(test_hang_early_skips_together), unit_test(test_hang_early_losses))
