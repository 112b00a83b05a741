/* ranks: 1 2  more: 4 8  device: cpu  threads: 1
 *
 * fp8 with delayed scaling equals the serial run with fp8, in every layout. Tests use fp64: its emulation is exact. */
#include "cp/cp.h"
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/ops/fp8.h"
#include "lib/ops/linear.h"
#include "mixed_precision/fp8.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With a history of two, step 3 takes the maximum of steps 1 and 2, and step 4 that of steps 2 and 3. */
static struct plan fp8_plan(void) {
    struct plan p = parity_plan();
    fp8_options(&p)->on = true;
    fp8_options(&p)->history = 2;
    fp8_options(&p)->margin = 1;
    return p;
}

static enum status start(struct run *r, struct plan p) {
    TRY(plan_settle(&p, plan_ranks(&p)));
    TRY(run_create(r, &train_recipe, &p, WATCH_LIFETIMES));
    return layout_use_demo(r);
}

/* ---- layouts ---- */
static const struct trial { int cp, by, dp, tp, pp, sp, zero, recompute, schedule; } TRIALS[] = {
    {.cp = 2, .by = CP_BY_RING}, {.cp = 2, .by = CP_BY_ULYSSES, .zero = 3},
    {.cp = 2, .by = CP_BY_GATHER, .recompute = RECOMPUTE_FULL}, {.tp = 2, .sp = 1, .recompute = RECOMPUTE_SELECTIVE},
    {.cp = 2, .by = CP_BY_RING, .tp = 2, .sp = 1}, {.cp = 2, .by = CP_BY_RING, .dp = 2, .zero = 2},
    {.cp = 2, .by = CP_BY_GATHER, .pp = 2, .schedule = SCHEDULE_ZB_V},
    {.cp = 2, .by = CP_BY_ULYSSES, .dp = 2, .tp = 2, .sp = 1, .zero = 3},
    {.cp = 2, .by = CP_BY_RING, .tp = 2, .pp = 2, .recompute = RECOMPUTE_FULL},
};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

static int at_least_1(int n) { return n ? n : 1; }

static struct plan plan_of(const struct trial *t) {
    struct plan p = fp8_plan();
    p.mesh.cp = at_least_1(t->cp), p.mesh.dp = at_least_1(t->dp), p.mesh.tp = at_least_1(t->tp);
    p.mesh.pp = at_least_1(t->pp);
    p.micro_batch = 2;
    cp_options(&p)->by = t->by;
    plan_set_number(&p, "sp", t->sp);
    plan_set_number(&p, "zero", t->zero);
    recompute_options(&p)->kind = t->recompute;
    pp_options(&p)->schedule = t->schedule ? t->schedule : SCHEDULE_1F1B;
    return p;
}

struct tally { const struct reference *reference; int seen, failed; };

static void try_layout(struct tally *t, struct plan p) {
    enum status tried = plan_settle(&p, comm_world_size());
    t->failed += !layout_is_serial(&p, tried, t->reference);
    t->seen++;
}

static void try_all(struct tally *t) {
    for (int i = 0; i < N_COMPANIES; i++) try_layout(t, layout_in_company(fp8_plan(), i));
    for (int k = 0; k < N_SYNCHRONOUS && comm_world_size() >= 4; k++)
        try_layout(t, layout_scheduled_in_company(fp8_plan(), k % N_COMPANIES, k));
    for (int i = 0; i < N_TRIALS; i++) {
        struct plan p = plan_of(&TRIALS[i]);
        if (mesh_n_ranks(&p.mesh) == comm_world_size()) try_layout(t, p);
    }
}

TEST(test_every_layout_with_fp8_equals_serial_fp64) {
    struct plan serial = fp8_plan();
    struct reference reference;
    struct tally t = {&reference, 0, 0};
    enum status status = reference_init(&reference, &serial);
    if (agree_all(status == OK)) try_all(&t);
    reference_fini(&reference);
    assert_ok(status);
    assert_true(t.seen >= N_COMPANIES);
    assert_int_equal(t.failed, 0);
}

/* E4M3 rounds by 2^-4 at most, E5M2 by 2^-3. So a run with fp8 must differ from a run without it, but not by much. */
TEST(test_fp8_does_round) {
    struct plan serial = parity_plan(), p = layout_in_company(fp8_plan(), 0);
    struct reference reference;
    struct difference d = {0};
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = reference_init(&reference, &serial);
    if (status == OK) status = layout_compare(&p, &reference, &d);
    reference_fini(&reference);
    assert_ok(status);
    assert_true(d.first_loss > 1e-7 && d.loss < 1e-2);
    assert_true(d.first_grad > 1e-3 && d.first_grad < 1);
}

/* In fp32 and bf16, layouts round sums differently, and a code near a tie differs by an eighth. So losses are near, not
 * equal. But bytes must be exact, and only in these dtypes do products have scratch. */
static void check_bytes(enum plan_precision precision, int company) {
    struct plan serial = fp8_plan(), p = layout_in_company(fp8_plan(), company);
    struct reference reference;
    struct difference d = {0};
    serial.precision = p.precision = precision;
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = reference_init(&reference, &serial);
    if (status == OK) status = layout_compare(&p, &reference, &d);
    reference_fini(&reference);
    assert_ok(status);
    assert_close(d.memory, 0, 0);
    assert_close(d.wire, 0, 1e-12);
    assert_close(d.first_loss, 0, 1e-2);
}

TEST(test_fp8_over_fp32_and_bf16_plans_every_byte) {
    check_bytes(PRECISION_FP32, 0);
    check_bytes(PRECISION_FP32, 10);
    check_bytes(PRECISION_BF16, 2);
    check_bytes(PRECISION_BF16, 8);
}

/* ---- memory and messages ---- */
TEST(test_linear_layers_keep_one_byte_of_each_number) {
    struct plan p = fp8_plan();
    struct run r;
    int casts = 0;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    for (int i = 0; i < r.program.n_steps; i++) {
        const struct step *s = &r.program.steps[i];
        const struct slot *out = &r.program.slots[s->out[0]];
        bool layer = r.program.blocks[s->block].is_layer;
        assert_false(layer && s->op == &op_linear);
        assert_false(!layer && s->op->rule == RULE_FP8);
        assert_int_equal(out->type.dtype, s->op == &op_cast_fp8 ? FP8_E4M3 : FP64);
        assert_int_equal(out->grad_type.dtype, FP64);
        casts += s->op == &op_cast_fp8;
    }
    assert_int_equal(casts, 4 * p.layers);
    run_destroy(&r);
}

/* Activations of a layer in fp64, per token. Without fp8 the inputs of qkv, fc and fc2 take 8 (C + C + 4 C) bytes; proj
 * reads attention's output, which attention keeps anyway. With fp8 the codes of all four inputs take 7 C bytes. */
TEST(test_activations_shrink_by_what_is_cast) {
    struct plan plain = parity_plan(), fp8 = fp8_plan();
    struct run r;
    int64_t bytes[2], tokens = plain.micro_batch * plain.seq;
    for (int i = 0; i < 2; i++) {
        struct plan *p = i ? &fp8 : &plain;
        assert_ok(plan_settle(p, 1));
        assert_ok(run_compile(&r, &train_recipe, p, 0, NULL, NULL));
        bytes[i] = r.chunks[0].frame_bytes[FRAME_FB];
        run_destroy(&r);
    }
    assert_int_equal(bytes[0] - bytes[1], plain.layers * tokens * plain.hidden * (8 * 6 - 7));
}

/* A step all-reduces the loss, the norm, and three numbers per param of the model for fp8. */
TEST(test_fp8_sends_what_it_bills) {
    struct plan p = layout_in_company(fp8_plan(), 0);
    struct run r;
    enum { STEPS = 2 };
    assert_ok(start(&r, p));
    const struct ledger *l = group_ledger(r.mesh.group[AXIS_MESH]);
    struct ledger_entry before = l->entry[COMM_ALL_REDUCE];
    enum status status = OK;
    for (int i = 0; i < STEPS && status == OK; i++) status = run_step(&r);
    double ranks = comm_world_size(), share = 2 * (ranks - 1) / ranks;
    double sent = l->entry[COMM_ALL_REDUCE].bytes - before.bytes;
    int64_t calls = l->entry[COMM_ALL_REDUCE].calls - before.calls;
    double billed = r.bill.wire_bytes[AXIS_MESH], tensors = 3.0 * r.program.n_params;
    run_destroy(&r);
    assert_ok(status);
    assert_close(billed, 8 * tensors * share, 1e-9);
    assert_close(sent, STEPS * (billed + 2 * 8 * share), 1e-9);
    if (comm_world_size() > 1) assert_int_equal(calls, STEPS * 3);
}

/* ---- scales ---- */
enum { LOOKS = 5 };
enum { MAX_TENSORS = MAX_PARAMS * N_FP8_TENSORS };
struct looker { int n; double amax[LOOKS][MAX_TENSORS], scale[LOOKS][MAX_TENSORS]; };

static const struct fp8_rule *any_rule(const struct run *r) {
    for (int i = 0; i < r->program.n_steps; i++)
        if (r->program.steps[i].op->rule == RULE_FP8) return &r->program.steps[i].fp8;
    return NULL;
}

/* At the end of backward, copy this rank's amax and this step's scales. */
static enum status look(struct run *r, void *self, const struct event *e) {
    (void)e;
    struct looker *l = self;
    size_t bytes = (size_t)(N_FP8_TENSORS * r->program.n_params) * sizeof(double);
    memcpy(l->amax[l->n], any_rule(r)->amax, bytes);
    memcpy(l->scale[l->n++], any_rule(r)->scale, bytes);
    return OK;
}

static double expected_scale(const struct looker *l, int tensor, int step, const struct plan *p) {
    bool dy = tensor % N_FP8_TENSORS == FP8_DY;
    double most = 0;
    for (int s = step - (int)fp8_options(p)->history; s < step; s++)
        if (s >= 0) most = fmax(most, l->amax[s][tensor]);
    if (most == 0) return dy ? (double)(p->global_batch * p->seq) : 1;
    return (double)(float)((dy ? 57344 : 448) / (most * ldexp(1, (int)fp8_options(p)->margin)));
}

/* Scales equal the formula. There is one rank, whose amax is the maximum. Weights change, so scales must move. */
TEST(test_scales_follow_the_largest_of_the_last_steps) {
    if (comm_world_size() > 1) skip();
    static struct looker l;
    struct plan p = fp8_plan();
    struct run r;
    l.n = 0;
    assert_ok(start(&r, p));
    assert_ok(run_subscribe(&r, EVENT_BACKWARD_END, look, &l));
    for (int i = 0; i < LOOKS; i++) assert_ok(run_step(&r));
    int linear = 0, moved = 0;
    for (int i = 0; i < N_FP8_TENSORS * r.program.n_params; i++)
        for (int s = 0; s < LOOKS; s++) {
            assert_close(l.scale[s][i], expected_scale(&l, i, s, &p), 0);
            linear += s == 0 && l.amax[0][i] > 0;
            moved += s > 1 && l.scale[s][i] != l.scale[s - 1][i];
        }
    run_destroy(&r);
    assert_int_equal(linear, 3 * 4 * p.layers);
    assert_true(moved > linear);
}

TEST(test_evaluation_leaves_no_trace) {
    double loss[2], val;
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        struct run r;
        enum status status = start(&r, layout_in_company(fp8_plan(), 0));
        for (int i = 0; i < 3 && status == OK; i++) {
            status = run_step(&r);
            if (status == OK && evaluates) status = run_evaluate(&r, 2, &val);
        }
        loss[evaluates] = r.last.loss;
        run_destroy(&r);
        assert_ok(status);
    }
    assert_memory_equal(&loss[0], &loss[1], sizeof *loss);
}

/* ---- infinite amax ---- */
struct poison { int rank; };                                         /* -1: none */

/* Put an overflow on one rank only. */
static enum status put_infinity(struct run *r, void *self, const struct event *e) {
    (void)e;
    const struct poison *poison = self;
    const struct fp8_rule *rule = any_rule(r);
    if (comm_world_rank() == poison->rank && rule) rule->amax[rule->first + FP8_DY] = INFINITY;
    return OK;
}

TEST(test_one_rank_sees_infinity_and_all_skip) {
    struct run r;
    struct poison poison = {-1};
    const int poisoned[] = {-1, comm_world_size() - 1, 0, -1};
    bool ok = true;
    enum status status = start(&r, layout_in_company(fp8_plan(), 9));
    if (status == OK) status = run_subscribe(&r, EVENT_BACKWARD_END, put_infinity, &poison);
    for (int i = 0; i < 4 && status == OK; i++) {
        int64_t n_update = r.n_update;
        poison.rank = poisoned[i];
        status = run_step(&r);
        ok = ok && r.skipped == (poisoned[i] >= 0) && r.n_update == n_update + (poisoned[i] < 0) &&
             isfinite(r.last.loss);
    }
    ok = agree_all(ok);
    run_destroy(&r);
    assert_ok(status);
    assert_true(ok);
}

TEST(test_no_run_skips_for_ever) {
    struct run r;
    struct poison poison = {0};
    int n = 0;
    enum status status = start(&r, layout_in_company(fp8_plan(), 1));
    if (status == OK) status = run_subscribe(&r, EVENT_BACKWARD_END, put_infinity, &poison);
    while (status == OK && ++n < 20) status = run_step(&r);
    run_destroy(&r);
    assert_true(agree_all(status == E_NUMERIC && n == 4));
    assert_fails(status, E_NUMERIC, "fp8", "4th time");
}

/* ---- checkpoints ---- */
enum { BEFORE = 2, AFTER = 2 };

static void shared_path(const char *name, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

static enum status take_steps(struct run *r, int n, double *losses) {
    for (int i = 0; i < n; i++) {
        TRY(run_step(r));
        losses[i] = r->last.loss;
    }
    return OK;
}

static enum status train_and_save(const char *folder, double losses[AFTER]) {
    struct run r;
    enum status status = start(&r, layout_in_company(fp8_plan(), 0));
    if (status == OK) status = take_steps(&r, BEFORE, losses);
    if (status == OK) status = checkpoint_save(&r, folder, 1);
    if (status == OK) status = take_steps(&r, AFTER, losses);
    run_destroy(&r);
    return status;
}

static enum status load_and_train(int company, const char *folder, double losses[AFTER]) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    enum status status = start(&r, layout_in_company(fp8_plan(), company));
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = take_steps(&r, AFTER, losses);
    run_destroy(&r);
    return status;
}

TEST(test_a_history_goes_on_where_it_was) {
    char folder[CHECKPOINT_PATH_MAX];
    double whole[AFTER], resumed[AFTER];
    shared_path("fp8", folder);
    assert_ok(train_and_save(folder, whole));
    assert_ok(load_and_train(0, folder, resumed));
    assert_memory_equal(whole, resumed, sizeof whole);
    assert_ok(load_and_train(9, folder, resumed));                   /* another layout */
    for (int i = 0; i < AFTER; i++) assert_close(resumed[i], whole[i], 1e-10 * whole[i]);
}

TEST(test_a_checkpoints_history_is_looked_at) {
    static const char *const wrong[] = {
        "[]", "{}", "{\"skipped\": 0}", "{\"skipped\": -1, \"amax\": {}}", "{\"skipped\": 4, \"amax\": {}}",
        "{\"skipped\": 0.5, \"amax\": {}}", "{\"skipped\": 0, \"amax\": []}",
        "{\"skipped\": 0, \"amax\": {\"h0.fc.w\": [[1], [1]]}}",
        "{\"skipped\": 0, \"amax\": {\"h0.fc.w\": [[1], [1], 1]}}",
        "{\"skipped\": 0, \"amax\": {\"h0.fc.w\": [[1], [-1], [1]]}}",
        "{\"skipped\": 0, \"amax\": {\"h0.fc.w\": [[1], [\"1\"], [1]]}}"};
    struct run r;
    assert_ok(start(&r, layout_in_company(fp8_plan(), 0)));
    void *self = NULL;
    for (int i = 0; i < r.n_active; i++)
        if (r.active[i] == &technique_fp8) self = r.self[i];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *json = json_loads(wrong[i], 0, NULL);
        assert_non_null(json);
        assert_fails(technique_fp8.load(&r, self, json), E_FORMAT, "amax history");
        json_decref(json);
    }
    const struct fp8_rule *rule = any_rule(&r);
    assert_close(rule->scale[rule->first], 1, 0);                    /* no refused history is kept */
    run_destroy(&r);
}

/* ---- refusals ---- */
static void check_refused(struct plan p, const char *what, const char *remedy) {
    assert_ok(plan_settle(&p, 0));
    assert_fails(technique_fp8.check(&p), E_CONFIG, what, remedy);
}

TEST(test_fp8_refuses) {
    struct plan p = fp8_plan();
    p.device = PLAN_DEVICE_CUDA;
    check_refused(p, "precision=fp64", "device cpu");
    p = fp8_plan();
    p.precision = PRECISION_FP16;
    check_refused(p, "precision=fp16", "bf16");
    p = fp8_plan();
    p.mesh.pp = 2, p.micro_batch = 2;
    pp_options(&p)->schedule = SCHEDULE_PIPEDREAM;
    check_refused(p, "asynchronous", "use schedule 1f1b");
    pp_options(&p)->schedule = SCHEDULE_1F1B, pp_options(&p)->optim_sync = OPTIM_SYNC_VALIDATE;
    assert_ok(plan_settle(&p, 2));
    struct run r;
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "optim-sync=validate", "optim-sync wait");
    run_destroy(&r);
}

TESTS(unit_test(test_every_layout_with_fp8_equals_serial_fp64), unit_test(test_fp8_does_round),
      unit_test(test_fp8_over_fp32_and_bf16_plans_every_byte),
      unit_test(test_linear_layers_keep_one_byte_of_each_number), unit_test(test_activations_shrink_by_what_is_cast),
      unit_test(test_fp8_sends_what_it_bills), unit_test(test_scales_follow_the_largest_of_the_last_steps),
      unit_test(test_evaluation_leaves_no_trace), unit_test(test_one_rank_sees_infinity_and_all_skip),
      unit_test(test_no_run_skips_for_ever), unit_test(test_a_history_goes_on_where_it_was),
      unit_test(test_a_checkpoints_history_is_looked_at), unit_test(test_fp8_refuses))
