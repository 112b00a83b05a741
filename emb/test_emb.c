/* ranks: 1 2 4 8  device: cpu
 *
 * DLRM against an oracle that has loops over samples, in doubles, and a gradient as large as each table. The oracle
 * uses none of this project's ops, records or exchanges. Tables are sharded by table and by row, with ZeRO,
 * microbatches and late updates. Losses, norms, tables, their optimizer states and every other weight agree within
 * 1e-10. */
#include "emb/emb.h"
#include "models/dlrm/dlrm.h"
#include "driver/recipe.h"
#include "tests/emb_oracle.h"
#include "lib/data/clicks.h"
#include "dp_variants/local/local.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

/* The same clicks for all tests of this process. */
static const struct data_file *clicks(void) {
    static struct data_file *file;
    const struct clicks_layout c = {X, F, M, V, 0};
    double best;
    if (file) return file;
    assert_ok(clicks_synth(test_path("clicks"), &c, 600, 7, &best));
    assert_ok(data_open(test_path("clicks"), &file));
    return file;
}

static struct plan plan_of(const char *arch) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    assert_ok(recipe_arch(&p, arch));
    struct dlrm_options *o = dlrm_options(&p);
    *o = (struct dlrm_options){.features = F, .bag = M, .dense = X, .emb_lr = 0.05};
    if (p.arch == &model_dlrm) snprintf(o->bottom, sizeof o->bottom, "7");
    snprintf(o->top, sizeof o->top, "9-5");
    p.layers = p.heads = p.seq = 1;
    p.hidden = D, p.vocab = V, p.global_batch = B, p.micro_batch = 0;
    p.steps = 20, p.lr = 1e-2, p.min_lr = 1e-3, p.eps = 1e-6, p.clip = 0.05;
    p.precision = PRECISION_FP64;
    p.device = PLAN_DEVICE_CPU;
    grad_options(&p)->bucket_mb = 0.0005;
    return p;
}

static enum status open_run(struct run *r, struct plan *p, int world) {
    struct data_split train, val;
    memset(r, 0, sizeof *r);
    TRY(plan_settle(p, world));
    TRY(run_create(r, &train_recipe, p, WATCH_LIFETIMES));
    TRY(clicks_split(clicks(), 0.1, &train, &val));
    run_set_data(r, &train, &val);
    return OK;
}

/* ---- against the oracle ---- */
static const struct trial { int by, micro, zero, delay, dp; } TRIALS[] = {
    {EMB_BY_TABLE, 0, 0, 0, 0}, {EMB_BY_ROW, 0, 0, 0, 0}, {EMB_BY_TABLE, 1, 0, 0, 0}, {EMB_BY_ROW, 1, 0, 0, 0},
    {EMB_BY_TABLE, 0, 1, 1, 0}, {EMB_BY_ROW, 1, 2, 1, 0}, {EMB_BY_TABLE, 1, 3, 3, 0}, {EMB_BY_ROW, 0, 0, 3, 0},
};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

static struct plan trial_plan(const struct trial *t, const char *arch) {
    struct plan p = plan_of(arch);
    p.micro_batch = t->micro;
    emb_options(&p)->by = t->by;
    emb_options(&p)->delay = t->delay;
    plan_set_number(&p, "zero", t->zero);
    return p;
}

static bool is_oracle(struct plan p, const struct oracle *oracle) {
    struct run r;
    struct difference d = {0};
    double off = 0;
    enum status status = open_run(&r, &p, comm_world_size());
    for (int s = 0; status == OK && s < ORACLE_STEPS; s++) {
        status = run_step(&r);
        off = fmax(off, fabs(r.last.loss - oracle->loss[s]) / oracle->loss[s]);
        off = fmax(off, fabs(r.last.grad_norm - oracle->norm[s]) / oracle->norm[s]);
    }
    double weights = status == OK ? oracle_difference(oracle, &r) : NAN;
    if (status == OK) status = layout_compare_bytes(&r, ORACLE_STEPS, &d);
    run_destroy(&r);
    status_report();
    bool ok = status == OK && off < 1e-10 && weights < 1e-10 && d.memory == 0 && d.wire < 1e-12;
    if (!ok) fprintf(stderr, "by %d micro %d zero %d delay %d: %s, off %.1e weights %.1e memory %g wire %.1e\n",
                     emb_options(&p)->by, (int)p.micro_batch, (int)plan_number(&p, "zero"),
                     (int)emb_options(&p)->delay, status_name(status), off, weights, d.memory, d.wire);
    return agree_all(ok);
}

TEST(test_tables_by_table_and_by_row_equal_the_oracle) {
    int failed = 0;
    for (int i = 0; i < N_TRIALS; i++) {
        struct plan p = trial_plan(&TRIALS[i], "dlrm");
        struct oracle oracle;
        oracle_init(&oracle, &p, clicks());
        failed += !is_oracle(p, &oracle);
        oracle_fini(&oracle);
    }
    assert_int_equal(failed, 0);
}

/* A delay changes the algorithm, and the oracle's losses show it from the second step on. */
TEST(test_a_late_update_shows) {
    struct plan in_time = trial_plan(&TRIALS[0], "dlrm"), late = in_time;
    struct oracle a, b;
    emb_options(&late)->delay = 1;
    oracle_init(&a, &in_time, clicks());
    oracle_init(&b, &late, clicks());
    assert_close(a.loss[0], b.loss[0], 0);
    assert_close(a.loss[1], b.loss[1], 1);
    assert_true(fabs(a.loss[1] - b.loss[1]) > 1e-6 && fabs(a.loss[3] - b.loss[3]) > 1e-6);
    oracle_fini(&a);
    oracle_fini(&b);
}

/* ---- wide-deep against its serial run ---- */
static void losses(struct plan p, int world, double out[ORACLE_STEPS]) {
    struct run r;
    if (world == 1) p.mesh.dp = 1;
    enum status status = open_run(&r, &p, world);
    for (int s = 0; status == OK && s < ORACLE_STEPS; s++) {
        status = run_step(&r);
        out[s] = r.last.loss + r.last.grad_norm;
    }
    run_destroy(&r);
    assert_ok(status);
}

TEST(test_wide_deep_equals_its_serial_run) {
    double serial[ORACLE_STEPS], here[ORACLE_STEPS];
    for (int i = 0; i < N_TRIALS; i++) {
        struct plan p = trial_plan(&TRIALS[i], "wide-deep"), alone = p;
        plan_set_number(&alone, "zero", 0);
        alone.micro_batch = 0;
        losses(alone, 1, serial);
        losses(p, comm_world_size(), here);
        for (int s = 0; s < ORACLE_STEPS; s++) assert_close(here[s], serial[s], 1e-10 * serial[s]);
    }
}

/* ---- evaluation ---- */
/* The loss and the AUC do not depend on which rank has which sample, nor on the short last batch: 60 samples in batches
 * of 16. */
TEST(test_evaluation_is_the_same_in_every_layout) {
    double loss[2], auc[2];
    for (int i = 0; i < 2; i++) {
        struct plan p = trial_plan(&TRIALS[0], "dlrm");
        struct run r;
        if (i == 0) p.mesh.dp = 1;
        enum status status = open_run(&r, &p, i == 0 ? 1 : comm_world_size());
        struct evaluated out = {0};
        if (status == OK) status = run_evaluate_until(&r, 0, NULL, NULL, &out);
        loss[i] = out.loss, auc[i] = out.auc;
        run_destroy(&r);
        assert_ok(status);
    }
    assert_close(loss[1], loss[0], 1e-12);
    assert_close(auc[1], auc[0], 0);
    assert_true(auc[0] > 0.2 && auc[0] < 0.8);                       /* untrained: near 0.5 */
}

/* ---- refusals ---- */
static void refused(struct plan p, const char *what, const char *remedy) {
    struct run r;
    assert_ok(plan_settle(&p, 0));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, what, remedy);
    run_destroy(&r);
}

TEST(test_emb_refuses) {
    struct plan p = plan_of("dlrm");
    p.mesh.dp = 3, p.global_batch = 12;
    refused(p, "dp=3 does not divide features=8", "emb-by row");
    p = plan_of("dlrm");
    p.mesh.pp = 2;
    refused(p, "pp=2", "use --dp");
    p = plan_of("dlrm");
    p.mesh.cp = 2;
    refused(p, "cp=2", "use --dp");
    p = plan_of("dlrm");
    p.mesh.tp = 2, p.heads = 2;
    refused(p, "tp=2", "use --dp");
    p = plan_of("dlrm");
    p.precision = PRECISION_BF16;
    refused(p, "tables in fp32 or fp64", "precision fp32");
    p = plan_of("dlrm");
    local_options(&p)->steps = 2, p.mesh.dp = 2, p.clip = 0;
    refused(p, "rows belong to one replica", "leave --local-steps");
    p = plan_of("dlrm");
    dlrm_options(&p)->features = 0;
    refused(p, "features=0", "synth-clicks");
    p = plan_of("gpt");
    p.hidden = 8, emb_options(&p)->delay = 1;
    refused(p, "arch=gpt has none", "leave");
}

TESTS(unit_test(test_tables_by_table_and_by_row_equal_the_oracle), unit_test(test_a_late_update_shows),
      unit_test(test_wide_deep_equals_its_serial_run), unit_test(test_evaluation_is_the_same_in_every_layout),
      unit_test(test_emb_refuses))
