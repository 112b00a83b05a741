/* Shared by the bug hunts: compare three steps of a few layouts with the serial run in fp64, with a test for each
 * number. A file defines LAYOUTS, of 2 and of 4 ranks, includes this header, and has TESTS(HUNT_TESTS) after it. */
#include "cp/cp.h"
#include "driver/recipe.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"

/* A size of 0 means 1, a switch of 0 means off. micro 0: all samples of the replica at once. */
struct hunted { int dp, tp, pp, cp, zero, sp, micro; };
static const struct hunted HUNTED[] = {LAYOUTS};
enum { N_HUNTED = sizeof HUNTED / sizeof *HUNTED };

static int or_1(int n) { return n ? n : 1; }

static struct plan hunted_plan(const struct hunted *h) {
    struct plan p = parity_plan();
    p.mesh.dp = or_1(h->dp), p.mesh.tp = or_1(h->tp), p.mesh.pp = or_1(h->pp), p.mesh.cp = or_1(h->cp);
    tp_options(&p)->sp = h->sp;
    zero_options(&p)->stage = h->zero;
    p.check_types = 0;                       /* so that numbers show mistakes that types refuse (test_hunt_types) */
    p.micro_batch = h->micro ? h->micro : p.global_batch / p.mesh.dp;
    return p;
}

static bool is_of_this_world(const struct hunted *h) {
    return or_1(h->dp) * or_1(h->tp) * or_1(h->pp) * or_1(h->cp) == comm_world_size();
}

/* Find the layout with the largest difference in one number. */
typedef double number(const struct difference *);
static double loss_of(const struct difference *d) { return d->loss; }
static double norm_of(const struct difference *d) { return d->norm; }
static double grad_of(const struct difference *d) { return d->grad; }
static double weight_of(const struct difference *d) { return d->weight; }
static double bytes_of(const struct difference *d) { return fmax(d->memory, d->wire < 1e-12 ? 0 : d->wire); }

static enum status worst(number *of, double *most, char name[256]) {
    static struct reference serial;
    static bool has_serial;
    struct plan base = parity_plan();
    enum status status = has_serial ? OK : reference_init(&serial, &base);
    has_serial = agree_all(status == OK);
    *most = -1;
    for (const struct hunted *h = HUNTED; has_serial && status == OK && h < HUNTED + N_HUNTED; h++) {
        struct plan p = hunted_plan(h);
        struct difference d;
        if (!is_of_this_world(h)) continue;
        status = plan_settle(&p, comm_world_size());
        if (status == OK) status = layout_compare(&p, &serial, &d);
        if (status != OK || !(of(&d) <= *most)) snprintf(name, 256, "%s", layout_name(&p));
        if (status == OK && !(of(&d) <= *most)) *most = of(&d);
    }
    return status;
}

/* In fp64 another order of sums changes a number by about 1e-15, so 1e-10 is not rounding. */
static void hunt(number *of, const char *what) {
    double most;
    char name[256] = "";
    enum status status = worst(of, &most, name);
    if (status != OK) fprintf(stderr, "%s:\n", name);
    assert_ok(status);
    assert_true(most >= 0);
    if (!(most < 1e-10)) fail_msg("%s: %s off by %.2g of the serial run's", name, what, most);
}

static void test_hunt_loss(void **state) { (void)state, hunt(loss_of, "a loss is"); }
static void test_hunt_norm(void **state) { (void)state, hunt(norm_of, "a gradient norm is"); }
static void test_hunt_gradients(void **state) { (void)state, hunt(grad_of, "a gradient is"); }
static void test_hunt_weights(void **state) { (void)state, hunt(weight_of, "a weight, after three steps, is"); }
static void test_hunt_bytes(void **state) { (void)state, hunt(bytes_of, "bytes in memory or on the wire are"); }

/* Check the types of every rank's program after each technique, without running it. */
static void test_hunt_types(void **state) {
    (void)state;
    for (const struct hunted *h = HUNTED; h < HUNTED + N_HUNTED; h++) {
        struct plan p = hunted_plan(h);
        if (!is_of_this_world(h)) continue;
        assert_ok(plan_settle(&p, comm_world_size()));
        p.check_types = 1;
        for (int rank = 0; rank < comm_world_size(); rank++) {
            struct run ghost;
            enum status status = run_compile(&ghost, &train_recipe, &p, rank, NULL, NULL);
            run_destroy(&ghost);
            if (status != OK) fprintf(stderr, "%s, rank %d:\n", layout_name(&p), rank);
            assert_ok(status);
        }
    }
}

#define HUNT_TESTS                                                                                                     \
    unit_test(test_hunt_loss), unit_test(test_hunt_norm), unit_test(test_hunt_gradients),                              \
        unit_test(test_hunt_weights), unit_test(test_hunt_bytes), unit_test(test_hunt_types)
