/* ranks: 1 2 4  more: 8  device: any  threads: 1
 *
 * --optim-sync validate: weights, moments, losses and norms have the same bits as with wait, whether a guess is always
 * right (clip 0), always wrong (clip far below the norm), or meets a gradient that is no number. With every schedule,
 * in company with every other technique; steps overlap as in the driver. */
#include "driver/recipe.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 20, NO_STEP = -1 };

struct trial { int steps, poisoned; };   /* poisoned: the step whose gradient is not finite; NO_STEP: none */

static enum status poison(struct run *r, void *trial, const struct event *e) {
    const struct param *w = &r->program.params[r->program.n_params - 1];
    const double infinite = INFINITY;
    (void)e;
    if (!w->present || w->own_n == 0 || r->n_step != ((struct trial *)trial)->poisoned) return OK;
    return r->device->upload(r->device, param_own_grad(w), &infinite, sizeof infinite);
}

/* Two steps are in flight where the run allows it. @return the status of the run; its numbers go to `numbers` */
static enum status train(struct run *r, struct trial *t, double numbers[MAX_STEPS][2]) {
    if (t->poisoned != NO_STEP) TRY(run_subscribe(r, EVENT_GRAD_UNSCALE, poison, t));
    while (r->n_done < t->steps) {
        if (r->n_started == 0) TRY(run_step_start(r));
        if (run_overlaps(r) && r->n_step < t->steps) TRY(run_step_start(r));
        TRY(run_step_finish(r));
        numbers[r->n_done - 1][0] = r->last.loss;
        numbers[r->n_done - 1][1] = r->last.grad_norm;
    }
    return OK;
}

/* A copy in host memory. */
static void *copy_of(const struct device *from, const void *x, size_t bytes) {
    void *copy = malloc(bytes + 1);
    assert_non_null(copy);
    assert_ok(from->download(from, copy, x, (int64_t)bytes));
    return copy;
}

static bool same_array(const struct device *on, const void *a, const void *b, int64_t n, enum dtype dtype) {
    size_t bytes = n > 0 ? (size_t)n * dtype_size(dtype) : 0;
    void *x = copy_of(on, a, bytes), *y = copy_of(on, b, bytes);
    bool same = memcmp(x, y, bytes) == 0;
    free(x);
    free(y);
    return same;
}

static bool same_param(const struct run *r, const struct param *a, const struct param *b) {
    const struct device *weights = run_tier_device(r, a->weight_tier);
    const struct device *states = run_tier_device(r, a->state_tier);
    int64_t n = param_resident_n(a, a->weight_residence), own = a->own_n;
    return !a->present || (same_array(weights, a->weight, b->weight, n, a->type.dtype) &&
                           same_array(states, param_state(a, 0), param_state(b, 0), own, a->state_dtype) &&
                           same_array(states, param_state(a, 1), param_state(b, 1), own, a->state_dtype) &&
                           same_array(states, param_master(a), param_master(b), a->master ? own : 0, a->state_dtype));
}

struct both {
    struct run run[2];                       /* wait, validate */
    double numbers[2][MAX_STEPS][2];
    bool created[2], same;
    double memory;                           /* bytes by which the second run's peaks differ from its plan */
};

/* Train with wait and with validate. @return the status; a poisoned step must end each run with E_NUMERIC */
static enum status compare(struct both *b, struct plan p, struct trial t) {
    memset(b, 0, sizeof *b);
    b->same = true;
    p.device = test_device()->kind == DEVICE_CUDA ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    for (int i = 0; i < 2; i++) {
        pp_options(&p)->optim_sync = i;
        TRY(plan_settle(&p, comm_world_size()));
        TRY(run_create(&b->run[i], &train_recipe, &p, WATCH_LIFETIMES));
        b->created[i] = true;
        TRY(layout_use_demo(&b->run[i]));
        enum status status = train(&b->run[i], &t, b->numbers[i]);
        if (t.poisoned != NO_STEP && status == E_NUMERIC) status_clear();
        else TRY(status);
        b->same &= (status == E_NUMERIC) == (t.poisoned != NO_STEP);
        p.settled = false;
    }
    struct difference d = {0};
    if (t.poisoned == NO_STEP) TRY(layout_compare_bytes(&b->run[1], t.steps, &d));
    b->memory = d.memory;
    b->same &= !memcmp(b->numbers[0], b->numbers[1], sizeof *b->numbers);
    for (int i = 0; i < b->run[0].program.n_params; i++)
        b->same &= same_param(&b->run[0], &b->run[0].program.params[i], &b->run[1].program.params[i]);
    return OK;
}

static void release(struct both *b) {
    for (int i = 0; i < 2; i++)
        if (b->created[i]) run_destroy(&b->run[i]);
}

/* redone: the expected number of repeated updates. */
static void check(struct plan p, struct trial t, int redone) {
    struct both *b = malloc(sizeof *b);
    enum status status = compare(b, p, t);
    bool ok = agree_all(status == OK && b->same && b->memory == 0 && b->run[1].n_redone == redone);
    if (!ok && comm_is_rank_0())
        fprintf(stderr, "%s clip %g, poisoned %d: %s, same %d, memory %g B off, redone %d of %d\n", layout_name(&p),
                p.clip, t.poisoned, status_name(status), b->same, b->memory, (int)b->run[1].n_redone, redone);
    status_report();
    release(b);
    free(b);
    assert_true(ok);
}

static struct plan pipeline(int schedule) {
    struct plan p = parity_plan();
    p.mesh.pp = comm_world_size(), p.micro_batch = 1, model_options(&p)->tie = 0;
    p.loss_chunk = 0;
    pp_options(&p)->schedule = schedule;
    return p;
}

TEST(test_a_guess_that_is_always_wrong) {
    struct plan p = pipeline(SCHEDULE_ZB_H2);
    bool cpu = test_device()->kind == DEVICE_CPU;                    /* emulated it takes a hundred times as long */
    int n = cpu ? 20 : 2;
    p.clip = 0.5;
    if (!cpu) p.micro_batch = 4;
    if (!cpu && comm_world_size() == 1) skip();
    check(p, (struct trial){n, NO_STEP}, n);
}

TEST(test_a_guess_that_is_right_and_one_that_meets_no_number) {
    struct plan p = pipeline(SCHEDULE_ZB_H2);
    if (test_device()->kind != DEVICE_CPU) skip();
    p.clip = 0;
    check(p, (struct trial){20, NO_STEP}, 0);
    check(p, (struct trial){6, 3}, 2);                               /* and the step that started after it */
    p.clip = 0.5;
    check(p, (struct trial){6, 3}, 5);
}

TEST(test_every_schedule_in_company) {
    struct plan serial = parity_plan();
    if (test_device()->kind != DEVICE_CPU) skip();
    for (int c = 0; comm_world_size() >= 4 && c < N_COMPANIES; c++)
        for (int k = 0; k < N_SYNCHRONOUS; k++) {
            if ((c + 2 * k) % 13 && !layouts_want_all()) continue;
            struct plan p = layout_scheduled_in_company(serial, c, k);
            check(p, (struct trial){4, NO_STEP}, 4);
        }
}

TEST(test_masters_come_back_too) {
    struct plan p = pipeline(SCHEDULE_ZB_H1);
    p.precision = PRECISION_BF16, p.eps = 1e-4;
    if (test_device()->kind != DEVICE_CPU) skip();
    check(p, (struct trial){4, NO_STEP}, 4);
}

/* Rank 0 has a forward before its first backward. Its input comes from rank 1 after rank 1's own first backward. */
TEST(test_a_cut_before_the_first_backward) {
    const char *path = test_path("late.csv");
    struct plan p = parity_plan();
    if (comm_world_size() != 2 || test_device()->kind != DEVICE_CPU) skip();
    FILE *f = fopen(path, "w");
    fputs("0F0,2F0,0F1,2F1,2B0,2B1,0B0,0B1\n1F0,3F0,3B0,1F1,3F1,3B1,1B0,1B1\n", f);
    fclose(f);
    p.mesh.pp = 2, p.micro_batch = 8;
    pp_options(&p)->schedule = SCHEDULE_FILE;
    snprintf(pp_options(&p)->file, sizeof pp_options(&p)->file, "%s", path);
    check(p, (struct trial){4, NO_STEP}, 4);
}

TESTS(unit_test(test_a_cut_before_the_first_backward), unit_test(test_a_guess_that_is_always_wrong),
      unit_test(test_a_guess_that_is_right_and_one_that_meets_no_number), unit_test(test_every_schedule_in_company),
      unit_test(test_masters_come_back_too))
