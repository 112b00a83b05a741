/* ranks: 1 2 4  device: any
 *
 * A step on a GPU is queued without waiting: in run_step_start the host never waits for the device; a
 * second step can be queued before the first is finished; and a number that is not finite stops all updates, although
 * the host learns of it a step later. Only the fake of the CUDA runtime can count waits (tests/simt/fake.h); elsewhere
 * tools/gpu-check tests that part. */
#include "driver/recipe.h"
#include "lib/base/clock.h"
#include "lib/run/profile.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

extern int64_t simt_host_waits(void) __attribute__((weak));

static struct data_file *demo;

static enum status open_run(struct run *r, const struct plan *plan) {
    struct data_split train, val;
    struct plan p = *plan;
    p.device = PLAN_DEVICE_CUDA;
    TRY(plan_settle(&p, comm_world_size()));
    TRY(run_create(r, &train_recipe, &p, WATCH_NOTHING));
    if (!demo) TRY(data_open("configs/demo.txt", &demo));
    TRY(data_split_tail(demo, p.seq, 0.1, &train, &val));
    run_set_data(r, &train, &val);
    return OK;
}

static bool on_cpu(void) { return test_device()->kind == DEVICE_CPU; }

/* Layouts whose steps must not wait: every technique except offload, whose update runs on the host. */
static struct plan plan_of(int layout) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    int n = comm_world_size();
    p.precision = PRECISION_BF16;
    p.micro_batch = 2;
    *(layout == 1 ? &p.mesh.tp : layout == 2 ? &p.mesh.pp : &p.mesh.dp) = n;
    plan_set_number(&p, "zero", layout == 0 ? 3 : 0);
    plan_set_number(&p, "sp", layout == 1 && n > 1);
    if (layout >= 3) p.mesh.ep = n, m->experts = 8, m->experts_per_token = 2, m->moe_group = 4, m->z_loss = 0.01;
    if (layout == 4) m->capacity = 0, m->moe_packed = 1;
    recompute_options(&p)->kind = layout == 2 ? RECOMPUTE_FULL : RECOMPUTE_SELECTIVE;
    return p;
}

/* The first step asks libraries for plans and buffers; from the second step on nothing may wait. */
static enum status count_waits(const struct plan *p, int64_t *waits) {
    struct run r = {0};
    enum status status = open_run(&r, p);
    *waits = -1;
    if (status == OK) status = run_step(&r);
    int64_t before = simt_host_waits();
    if (status == OK) status = run_step_start(&r);
    *waits = simt_host_waits() - before;
    if (status == OK) status = run_step_finish(&r);
    run_destroy(&r);
    return status;
}

TEST(test_a_step_is_queued_without_waiting) {
    if (on_cpu() || !simt_host_waits) skip();
    for (int layout = 0; layout < 5; layout++) {
        struct plan p = plan_of(layout);
        int64_t waits;
        enum status status = count_waits(&p, &waits);
        bool fine = agree_all(status == OK && waits == 0);
        assert_ok(status);
        if (!fine) print_error("layout %d: %d waits\n", layout, (int)waits);
        assert_true(fine);
    }
}

static enum status losses_of(struct run *r, bool ahead, int n, double *loss) {
    for (int i = 0; i < n; i++) {
        if (r->n_started == 0) TRY(run_step_start(r));
        if (ahead && r->n_step < n) TRY(run_step_start(r));
        TRY(run_step_finish(r));
        loss[i] = r->last.loss;
        if (r->n_done != i + 1) return FAIL(E_INTERNAL, "step %d is counted as %d", i + 1, (int)r->n_done);
    }
    return OK;
}

TEST(test_a_step_started_early_is_the_same_step) {
    if (on_cpu()) skip();
    struct plan p = plan_of(0);
    double one_by_one[4], ahead[4];
    enum status status = OK;
    for (int way = 0; way < 2 && status == OK; way++) {
        struct run r = {0};
        status = open_run(&r, &p);
        if (status == OK) status = losses_of(&r, way, 4, way ? ahead : one_by_one);
        run_destroy(&r);
    }
    bool same = agree_all(status == OK && memcmp(one_by_one, ahead, sizeof ahead) == 0);
    assert_ok(status);
    assert_true(same);
}

static void *weights_of(const struct run *r, int64_t *bytes) {
    const struct param *w = &r->program.params[0];
    *bytes = w->own_n * (int64_t)dtype_size(w->type.dtype);
    void *copy = malloc((size_t)*bytes + 1);
    return r->device->download(r->device, copy, param_own_weight(w), *bytes) == OK ? copy : NULL;
}

/* A weight that is not a number passes through two queued steps: both are refused, and no other weight
 * changes. */
TEST(test_no_weight_changes_after_a_number_that_is_not_finite) {
    if (on_cpu() || comm_world_size() > 1) skip();
    struct run r = {0};
    struct plan p = plan_of(0);
    int64_t bytes;
    assert_ok(open_run(&r, &p));
    assert_ok(run_step(&r));
    const struct param *last = &r.program.params[r.program.n_params - 1];
    uint16_t nan = 0x7fc0;
    assert_ok(r.device->upload(r.device, last->weight, &nan, 2));
    char *before = weights_of(&r, &bytes);
    assert_ok(run_step_start(&r));
    assert_ok(run_step_start(&r));
    assert_fails(run_step_finish(&r), E_NUMERIC, "step 2", "nan", "no weight was changed");
    char *after = weights_of(&r, &bytes);
    bool same = before && after && memcmp(before, after, (size_t)bytes) == 0;
    free(before);
    free(after);
    run_destroy(&r);
    assert_true(same);
}

/* --profile: the device's own time of each operation, read when the step is done; the shares add up to the step. The
 * GPU's clock is nowhere ahead of the host's, so no share exceeds 100%. One kernel is one line: the residual and the
 * norm after it in forward, except for the last norm, which is a step outside of layers. */
static double share_of(const char *table, const char *line) {
    const char *at = strstr(table, line), *percent = at ? strchr(at, '%') : NULL;
    while (percent && percent > at && percent[-1] != ' ') percent--;
    return percent ? strtod(percent, NULL) : NAN;
}

static int n_of(const char *table, const char *name) {
    const char *at = strstr(table, name);
    return at ? atoi(at + strlen(name)) : 0;
}

TEST(test_the_profile_is_the_devices_time) {
    if (on_cpu() || comm_world_size() > 1) skip();
    struct plan p = plan_of(0);
    struct run r = {0};
    char *table = NULL;
    size_t size;
    plan_set_number(&p, "profile", 1);
    plan_set_number(&p, "zero", 0);                                  /* its gathers come between two rows */
    assert_ok(open_run(&r, &p));
    assert_ok(run_step(&r));
    profile_restart(&r);
    double start = clock_s();
    assert_ok(run_step_start(&r));
    assert_ok(run_step_start(&r));
    assert_ok(run_step_finish(&r));
    assert_ok(run_step_finish(&r));
    FILE *to = open_memstream(&table, &size);
    profile_print(&r, 2, clock_s() - start, NULL, to);
    fclose(to);
    double sum = 0;
    static const char *const lines[] = {"\nlinear ", "\nattention", "\nlayernorm", "\ngelu", "\noptimizer"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        double share = share_of(table, lines[i]);
        assert_true(share > 0 && share < 100);
        sum += share;
    }
    assert_true(sum < 100.5 && share_of(table, "\nwaiting and the rest") > -0.5);
    assert_int_equal(n_of(table, " h*.res1 + h*.ln2 "), p.layers);
    assert_int_equal(n_of(table, " h*.res2 + h*.ln1 "), p.layers - 1);
    assert_int_equal(n_of(table, " h*.res2 + head.lnf "), 1);
    assert_int_equal(n_of(table, " h*.qkv "), p.layers);
    free(table);
    run_destroy(&r);
}

TESTS(unit_test(test_the_profile_is_the_devices_time), unit_test(test_a_step_is_queued_without_waiting),
      unit_test(test_a_step_started_early_is_the_same_step),
      unit_test(test_no_weight_changes_after_a_number_that_is_not_finite))
