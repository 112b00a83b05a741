/* ranks: 2  more: 1 4 8  device: cpu
 *
 * Pipelines without a flush agree with an oracle on one rank, which writes the delayed gradient out. Before each
 * microbatch's forward and backward the oracle installs the versions of the weights that the schedule's formula gives,
 * and after k microbatches it updates. The formula is repeated here; model, ops and AdamW are the product's. Loss,
 * gradients of every update, and the weights at the end must be equal within 1e-10 in fp64. */
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "mixed_precision/mixed_precision.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_UPDATES = 16 };

/* Two sessions with a flush between them. */
struct trial { int schedule, p, k, updates[2]; };

static int n_updates(const struct trial *t) { return t->updates[0] + t->updates[1]; }

/* ---- the formulas: the number of updates of the weights that microbatch t of a session reads on a stage ---- */
static int64_t at_least_0(int64_t x) { return x > 0 ? x : 0; }
static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

static int64_t version(const struct trial *x, int stage, int64_t t, bool backward) {
    int64_t w = x->p - 1 - stage;
    switch (x->schedule) {
    case SCHEDULE_PIPEDREAM: return at_least_0(floor_div(t - w, x->k));
    case SCHEDULE_VERTICAL: return at_least_0(floor_div(t - (x->p - 1), x->k));
    case SCHEDULE_2BW: return at_least_0(t / x->k - 1);
    default: return backward ? t / x->k : at_least_0(floor_div(t - w, x->k));     /* PipeMare */
    }
}

/* ---- the oracle ---- */
struct oracle {
    struct run run;
    int stage[MAX_PARAMS];
    double loss[MAX_UPDATES];
    double *grad[MAX_UPDATES][MAX_PARAMS], *weight[MAX_UPDATES + 1][MAX_PARAMS];   /* weight[v]: after v updates */
};

static double *copy_of(const void *x, int64_t n) {
    double *copy = malloc((size_t)n * sizeof *copy);
    assert_non_null(copy);
    return memcpy(copy, x, (size_t)n * sizeof *copy);
}

static void keep_weights(struct oracle *o, int v) {
    for (int i = 0; i < o->run.program.n_params; i++)
        o->weight[v][i] = copy_of(o->run.program.params[i].weight, type_n(&o->run.program.params[i].type));
}

static void put_weights(struct oracle *o, const struct trial *x, int first, int64_t t, bool backward) {
    for (int i = 0; i < o->run.program.n_params; i++) {
        const struct param *w = &o->run.program.params[i];
        int64_t v = first + version(x, o->stage[i], t, backward);
        memcpy(w->weight, o->weight[v][i], (size_t)type_n(&w->type) * sizeof(double));
    }
}

static enum status run_action(struct oracle *o, enum action_kind kind, int j, int k) {
    struct action a = action_of(kind, 0, j);
    a.first = j == 0, a.last = j == k - 1;
    struct schedule s = {.n = 1, .actions = &a, .n_microbatches = k};
    return exec_run(&o->run.exec, &s, true);
}

/* Update u, the n-th of a session that began after `first` updates. */
static enum status update(struct oracle *o, const struct trial *x, int first, int n) {
    struct run *r = &o->run;
    int u = first + n;
    r->n_step = u, r->exec.n_step = (uint64_t)u;
    for (int j = 0; j < x->k; j++) {
        int64_t t = (int64_t)n * x->k + j;
        for (enum action_kind kind = ACTION_F; kind <= ACTION_B; kind++) {
            double loss;
            put_weights(o, x, first, t, kind == ACTION_B);
            TRY(run_action(o, kind, j, x->k));
            TRY(run_read_scalar(r, &run_scalars(r)[SCALAR_LOSS], &loss));    /* 0, if another action computes it */
            o->loss[u] += loss;
        }
    }
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        o->grad[u][i] = copy_of(w->grad, type_n(&w->type));
        memcpy(w->weight, o->weight[u][i], (size_t)type_n(&w->type) * sizeof(double));
    }
    TRY(optim_squares(r));
    TRY(optimizer_decide(r->device, &run_scalars(r)[SCALAR_MULTIPLIER], &run_scalars(r)[SCALAR_NORM],
                         &run_scalars(r)[SCALAR_SQUARES], r->health, r->plan.clip, 1));
    TRY(optim_step(r, &(struct step_record){
                          .n_update = u, .result.lr = plan_lr(&r->plan, u), .on_device = run_scalars(r)}));
    r->n_update++;
    keep_weights(o, u + 1);
    return OK;
}

static void find_stages(struct oracle *o, const struct plan *pipeline) {
    int of_layer[64];
    assert_ok(pp_assign_layers(pipeline, of_layer));
    for (int i = 0; i < o->run.program.n_params; i++) {
        int layer;
        const char *name = o->run.program.params[i].name;
        bool in_layer = sscanf(name, "h%d.", &layer) == 1;
        o->stage[i] = in_layer ? of_layer[layer] : strncmp(name, "embed", 5) ? (int)pipeline->mesh.pp - 1 : 0;
    }
}

static enum status oracle_init(struct oracle *o, const struct trial *x, const struct plan *pipeline) {
    struct plan serial = *pipeline;
    memset(o, 0, sizeof *o);
    serial.mesh = (struct mesh_sizes){.cp_heads = 1};
    serial.micro_batch = pipeline->micro_batch * pipeline->mesh.dp;
    serial.settled = false;
    pp_options(&serial)->schedule = SCHEDULE_1F1B;
    pp_options(&serial)->split[0] = 0;
    plan_set_number(&serial, "zero", 0);
    TRY(plan_settle(&serial, 1));
    TRY(run_create(&o->run, &train_recipe, &serial, WATCH_NOTHING));
    TRY(layout_use_demo(&o->run));
    find_stages(o, pipeline);
    keep_weights(o, 0);
    for (int s = 0, first = 0; s < 2; first += x->updates[s++])
        for (int n = 0; n < x->updates[s]; n++) TRY(update(o, x, first, n));
    return OK;
}

static void oracle_fini(struct oracle *o) {
    for (int u = 0; u <= MAX_UPDATES; u++)
        for (int i = 0; i < MAX_PARAMS; i++) {
            free(o->weight[u][i]);
            if (u < MAX_UPDATES) free(o->grad[u][i]);
        }
    run_destroy(&o->run);
}

/* ---- the pipeline ---- */
static double largest(const double *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* NaN counts as the worst. */
static double worse(double a, double b) { return isnan(a) || isnan(b) ? NAN : fmax(a, b); }

static double worst_param(const struct run *r, const struct oracle *o, double *const reference[MAX_PARAMS],
                          bool gradient) {
    double worst = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || w->own_n == 0) continue;
        double size = largest(reference[i], type_n(&o->run.program.params[i].type));
        double diff = layout_own_difference(r, w, gradient, reference[i]) / (size > 0 ? size : 1);
        worst = worse(worst, diff);
    }
    return worst;
}

/* After a flush a stage has only the newest weights. */
static enum status compare_evaluation(struct run *r, struct oracle *o, struct difference *d) {
    double loss, expected;
    TRY(run_evaluate(&o->run, 2, &expected));
    TRY(run_evaluate(r, 2, &loss));
    d->loss = worse(d->loss, fabs(loss - expected) / expected);
    return OK;
}

static enum status compare_steps(struct run *r, struct oracle *o, const struct trial *x, struct difference *d) {
    for (int u = 0; u < n_updates(x); u++) {
        r->flush_at = u < x->updates[0] ? x->updates[0] : n_updates(x);
        TRY(run_step(r));
        d->loss = worse(d->loss, fabs(r->last.loss - o->loss[u]) / o->loss[u]);
        d->grad = worse(d->grad, worst_param(r, o, o->grad[u], true));
    }
    d->weight = worst_param(r, o, o->weight[n_updates(x)], false);
    TRY(layout_compare_bytes(r, n_updates(x), d));
    return compare_evaluation(r, o, d);
}

static void check(const struct plan *plan, const struct trial *x) {
    static struct oracle o;
    struct run r = {0};
    struct difference d = {0};
    enum status status = oracle_init(&o, x, plan);
    if (agree_all(status == OK)) status = run_create(&r, &train_recipe, plan, WATCH_LIFETIMES);
    if (status == OK) status = layout_use_demo(&r);
    if (status == OK) status = compare_steps(&r, &o, x, &d);
    run_destroy(&r);
    oracle_fini(&o);
    double worst = agree_max(worse(d.loss, worse(d.grad, d.weight))), bytes = agree_max(d.memory),
           wire = agree_max(d.wire);
    if (!agree_all(status == OK) || !(worst < 1e-10) || bytes > 0 || wire > 1e-12)
        fail_msg("%s k=%d updates %d+%d: %s; loss %.1e grad %.1e weight %.1e memory %g B wire %.1e", layout_name(plan),
                 x->k, x->updates[0], x->updates[1], status_name(status), d.loss, d.grad, d.weight, d.memory, d.wire);
}

static struct plan plan_of(int schedule, int dp, int k) {
    struct plan p = parity_plan();
    model_options(&p)->tie = 0, p.clip = 0, p.loss_chunk = 0;
    p.mesh.dp = dp, p.mesh.pp = comm_world_size() / dp;
    p.global_batch = 16 * dp;
    p.micro_batch = 16 / k;
    pp_options(&p)->schedule = schedule;
    return p;
}

TEST(test_endless_pipelines_equal_the_delayed_gradient) {
    for (int schedule = N_SYNCHRONOUS; schedule < N_SCHEDULES; schedule++)
        for (int k = 1; k <= 16; k *= 2) {
            struct plan p = plan_of(schedule, 1, k);
            struct trial x = {schedule, (int)p.mesh.pp, k, {p.mesh.pp > k ? 9 : 4, 3}};
            if (schedule == SCHEDULE_2BW && k < p.mesh.pp) continue;
            assert_ok(plan_settle(&p, comm_world_size()));
            check(&p, &x);
        }
}

/* Replicas, ZeRO-1, uneven stages and recomputation compose with these schedules: each sees the step's gradients. */
TEST(test_endless_pipelines_in_company) {
    if (comm_world_size() < 4) skip();
    for (int schedule = N_SYNCHRONOUS; schedule < N_SCHEDULES; schedule++)
        for (int zero = 0; zero <= 1; zero++) {
            struct plan p = plan_of(schedule, 2, 4);
            struct trial x = {schedule, (int)p.mesh.pp, 4, {4, 2}};
            plan_set_number(&p, "zero", zero);
            if (p.mesh.pp == 4) snprintf(pp_options(&p)->split, sizeof pp_options(&p)->split, "1,3,2,2");
            assert_ok(plan_settle(&p, comm_world_size()));
            check(&p, &x);
        }
}

/* 2BW is late by one update on all stages, so a norm exists, and both copies of a tied matrix get the same sum. */
TEST(test_2bw_clips_and_ties) {
    struct plan p = plan_of(SCHEDULE_2BW, 1, 8);
    struct trial x = {SCHEDULE_2BW, (int)p.mesh.pp, 8, {4, 3}};
    model_options(&p)->tie = 1, p.clip = 0.5;
    assert_ok(plan_settle(&p, comm_world_size()));
    check(&p, &x);
}

/* ---- a flush is a checkpoint ---- */
static enum status steps_until(struct run *r, int end, int flush, double *losses) {
    while (r->n_done < end) {
        r->flush_at = r->n_done < flush ? flush : end;
        TRY(run_step(r));
        losses[r->n_done - 1] = r->last.loss;
    }
    return OK;
}

static enum status begin(struct run *r, const struct plan *p) {
    TRY(run_create(r, &train_recipe, p, WATCH_NOTHING));
    return layout_use_demo(r);
}

TEST(test_an_endless_run_resumes_to_the_bit) {
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    double whole[7], resumed[7];
    snprintf(folder, sizeof folder, "%s", test_path("endless"));
    assert_ok(comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0));
    for (int schedule = N_SYNCHRONOUS; schedule < N_SCHEDULES; schedule++) {
        struct run r = {0};
        struct plan p = plan_of(schedule, 1, 8);
        assert_ok(plan_settle(&p, comm_world_size()));
        enum status status = begin(&r, &p);
        if (status == OK) status = steps_until(&r, 4, 4, whole);
        if (status == OK) status = checkpoint_save(&r, folder, 1);
        if (status == OK) status = steps_until(&r, 7, 4, whole);
        run_destroy(&r);
        assert_ok(status);
        status = begin(&r, &p);
        if (status == OK) status = checkpoint_resolve(folder, step);
        if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
        if (status == OK) status = steps_until(&r, 7, 4, resumed);
        run_destroy(&r);
        assert_ok(status);
        assert_memory_equal(&whole[4], &resumed[4], 3 * sizeof *whole);
    }
}

/* Between flushes stages are at different updates, so evaluation and checkpoints are refused. */
TEST(test_weights_are_not_given_away_in_between) {
    struct run r = {0};
    struct plan p = plan_of(SCHEDULE_PIPEDREAM, 1, 8);
    double loss;
    assert_ok(plan_settle(&p, comm_world_size()));
    assert_ok(begin(&r, &p));
    r.flush_at = 2;
    assert_ok(run_step(&r));
    assert_fails(run_evaluate(&r, 1, &loss), E_INTERNAL, "not empty");
    assert_fails(checkpoint_save(&r, "unused", 1), E_INTERNAL, "not empty");
    assert_ok(run_step(&r));
    assert_ok(run_evaluate(&r, 1, &loss));
    run_destroy(&r);
}

/* ---- refusals ---- */
TEST(test_what_endless_pipelines_cannot_do_is_refused) {
    struct plan p = plan_of(SCHEDULE_PIPEDREAM, 1, 2), q;
    p.mesh.pp = 4, p.n_microbatches = 2;
    assert_ok(technique_pp.check(&p));
    q = p, model_options(&q)->tie = 1;
    assert_fails(technique_pp.check(&q), E_CONFIG, "pipedream", "tie=off");
    q = p, q.clip = 1;
    assert_fails(technique_pp.check(&q), E_CONFIG, "pipedream", "clip=0");
    q = p, plan_set_number(&q, "spike-guard", 6);
    assert_fails(technique_pp.check(&q), E_CONFIG, "spike-guard=6", "leave it out");
    q = p, pp_options(&q)->schedule = SCHEDULE_2BW;
    assert_fails(technique_pp.check(&q), E_CONFIG, "2bw", "pp=4 and 2 microbatches");
    q = p, plan_set_number(&q, "zero", 2);
    assert_fails(technique_zero.check(&q), E_CONFIG, "zero=2", "use schedule 1f1b, or zero 1");
    q = p, q.precision = PRECISION_FP16;
    assert_fails(technique_mixed_precision.check(&q), E_CONFIG, "loss scale", "bf16");
}

TESTS(unit_test(test_2bw_clips_and_ties), unit_test(test_an_endless_run_resumes_to_the_bit),
      unit_test(test_weights_are_not_given_away_in_between),
      unit_test(test_what_endless_pipelines_cannot_do_is_refused),
      unit_test(test_endless_pipelines_equal_the_delayed_gradient), unit_test(test_endless_pipelines_in_company))
