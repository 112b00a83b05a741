/* Shared by the four hangs: three steps of a few layouts, compared with the serial run in fp64. A file defines LAYOUTS,
 * includes this header, and has TESTS(HANG_TESTS) after it. All layouts are trained once, by the first test: after a
 * hang the ranks have lost each other, and the other tests fail by what the first one saw. */
#include "driver/recipe.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"

/* A size of 0 means 1, a switch of 0 means off. */
struct hung { int dp, tp, pp, zero, sp, micro; };
static const struct hung HUNG[] = {LAYOUTS};
enum { N_HUNG = sizeof HUNG / sizeof *HUNG };

static int or_1(int n) { return n ? n : 1; }

static struct plan hung_plan(const struct hung *h) {
    struct plan p = parity_plan();
    p.mesh.dp = or_1(h->dp), p.mesh.tp = or_1(h->tp), p.mesh.pp = or_1(h->pp);
    tp_options(&p)->sp = h->sp;
    zero_options(&p)->stage = h->zero;
    p.micro_batch = h->micro;
    return p;
}

/* What all layouts of this world have shown: the first failure, or the largest differences. */
struct seen { bool done; enum status status; char name[256]; double loss, weight, wire; };

static void see(struct seen *s, const struct hung *h, const struct reference *serial) {
    struct plan p = hung_plan(h);
    struct difference d = {0};
    s->status = plan_settle(&p, comm_world_size());
    snprintf(s->name, sizeof s->name, "%s", layout_name(&p));
    if (s->status == OK) s->status = layout_compare(&p, serial, &d);
    s->loss = fmax(s->loss, d.loss), s->weight = fmax(s->weight, d.weight), s->wire = fmax(s->wire, d.wire);
}

static const struct seen *seen(void) {
    static struct reference serial;
    static struct seen s;
    if (s.done) return &s;
    struct plan base = parity_plan();
    s.done = true;
    s.status = reference_init(&serial, &base);
    for (const struct hung *h = HUNG; s.status == OK && h < HUNG + N_HUNG; h++)
        if (or_1(h->dp) * or_1(h->tp) * or_1(h->pp) == comm_world_size()) see(&s, h, &serial);
    return &s;
}

static const struct seen *ended(void) {
    const struct seen *s = seen();
    if (s->status != OK) fail_msg("%s: its steps did not end, so there is nothing to compare", s->name);
    return s;
}

static void test_hang_ends(void **state) {
    (void)state;
    const struct seen *s = seen();
    if (s->status != OK) fprintf(stderr, "%s hangs, or fails:\n", s->name);
    assert_ok(s->status);
}

/* In fp64 another order of sums changes a number by about 1e-15, so 1e-10 is not rounding. */
static void test_hang_losses(void **state) {
    (void)state;
    const struct seen *s = ended();
    if (!(s->loss < 1e-10)) fail_msg("it ends, and a loss is off by %.2g of the serial run's", s->loss);
}

static void test_hang_weights(void **state) {
    (void)state;
    const struct seen *s = ended();
    if (!(s->weight < 1e-10)) fail_msg("it ends, and a weight is off by %.2g of the serial run's", s->weight);
}

static void test_hang_bytes(void **state) {
    (void)state;
    const struct seen *s = ended();
    if (!(s->wire < 1e-12))
        fail_msg("it ends, and bytes or calls are off by %.2g of the bill: what was left out, or done twice?", s->wire);
}

#define HANG_TESTS                                                                                                     \
    unit_test(test_hang_ends), unit_test(test_hang_losses), unit_test(test_hang_weights), unit_test(test_hang_bytes)
