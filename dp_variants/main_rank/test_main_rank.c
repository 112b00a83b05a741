/* ranks: 1 2 4  device: cpu  threads: 1
 *
 * One main rank has the serial run's numbers in every layout. Tests also check the bytes that rank 0 sends and gets,
 * which rank has the optimizer, the weights of every replica, checkpoints, and refusals. */
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/comm/comm_backend.h"
#include "dp_variants/main_rank/main_rank.h"
#include "lib/ops/codec.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <string.h>

static struct plan main_plan(void) {
    struct plan p = parity_plan();
    main_rank_options(&p)->style = DP_STYLE_MAIN;
    return p;
}

/* Every rank is a replica. */
static struct plan replicas_plan(void) {
    struct plan p = main_plan();
    p.layers = 2;
    p.mesh.dp = comm_world_size();
    p.micro_batch = p.global_batch / p.mesh.dp;
    return p;
}

/* ---- parity ---- */
struct tally { const struct reference *reference; int seen, right; };

static void try_layout(void *self, const struct plan *p) {
    struct tally *t = self;
    if (p->micro_batch != 2 || (p->mesh.dp == 1 && comm_world_size() > 1) || pp_options(p)->split[0]) return;
    t->seen++;
    t->right += layout_is_serial(p, OK, t->reference);
}

TEST(test_main_rank_equals_serial_in_every_layout) {
    struct reference ref;
    struct plan serial = parity_plan(), plan = main_plan();
    struct tally t = {&ref, 0, 0};
    enum status status = reference_init(&ref, &serial);
    if (agree_all(status == OK)) layouts_each(&plan, comm_world_size(), try_layout, &t);
    reference_fini(&ref);
    assert_ok(status);
    assert_true(t.seen >= 2);
    assert_int_equal(t.right, t.seen);
}

/* ---- bytes and weights of a run ---- */
/* Open a run with the algorithms that the plan prefers. They stay in force, so callers restore the settings. */
static enum status open_run(struct run *r, struct plan p) {
    TRY(plan_settle(&p, comm_world_size()));
    TRY(plan_use_comm(&p, false, 1));
    return layout_open(r, p, WATCH_NOTHING);
}

static enum status run_steps(struct run *r, struct plan p, int n) {
    TRY(open_run(r, p));
    for (int i = 0; i < n; i++) TRY(run_step(r));
    return OK;
}

static double bytes_of(const struct run *r, bool gradients) {
    int64_t bytes = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        bytes += type_bytes(gradients ? &w->grad_type : &w->type);
    }
    return (double)bytes;
}

static double sent(const struct run *r, enum comm_op op) {
    const struct ledger_entry *e = &group_ledger(r->mesh.group[AXIS_DP])->entry[op];
    return e->sent[0] + e->sent[1];
}

/* In a step rank 0 sends (n-1) W bytes of weights, and every other rank sends G bytes of gradients. */
TEST(test_main_rank_sends_all_weights_and_gets_all_gradients) {
    const struct comm_settings before = *comm_settings_in_force();
    struct run r;
    int n = comm_world_size();
    enum status status = run_steps(&r, replicas_plan(), 2);
    bool first = comm_is_rank_0(), ok = false;
    if (status == OK)
        ok = sent(&r, COMM_BROADCAST) == (first ? 2 * (n - 1) * bytes_of(&r, false) : 0) &&
             sent(&r, COMM_REDUCE) == (first ? 0 : 2 * bytes_of(&r, true));
    run_destroy(&r);
    comm_configure(&before);
    assert_ok(status);
    assert_true(agree_all(ok));
}

TEST(test_main_rank_alone_has_the_optimizer) {
    struct plan p = replicas_plan();
    p.mesh.dp = 4;
    p.micro_batch = 2;
    assert_ok(plan_settle(&p, 4));
    for (int rank = 0; rank < 4; rank++) {
        struct run r;
        assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
        int64_t optim = r.memory.bytes[TIER_DEVICE][ROLE_OPTIM], grads = r.memory.bytes[TIER_DEVICE][ROLE_GRAD];
        run_destroy(&r);
        assert_int_equal(optim, rank == 0 ? 2 * grads : 0);
    }
}

/* Does this rank have rank 0's weight, to the bit? */
static bool has_weight_of_rank_0(const struct param *w) {
    int64_t bytes = type_bytes(&w->type);
    char *copy = malloc((size_t)bytes);
    if (copy) memcpy(copy, w->weight, (size_t)bytes);
    bool ok = copy && comm_broadcast(group_world(), copy, bytes, UINT8, 0) == OK;
    ok = ok && !memcmp(copy, w->weight, (size_t)bytes);
    free(copy);
    return ok;
}

static bool has_weights_of_rank_0(const struct run *r) {
    bool ok = true;
    for (int i = 0; i < r->program.n_params; i++) ok &= has_weight_of_rank_0(&r->program.params[i]);
    return ok;
}

TEST(test_every_replica_has_the_main_ranks_weights) {
    const struct comm_settings before = *comm_settings_in_force();
    const int precisions[] = {PRECISION_FP64, PRECISION_BF16};
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        struct run r;
        struct plan p = replicas_plan();
        p.precision = precisions[i];
        ok = agree_all(run_steps(&r, p, 2) == OK);
        if (ok) ok = has_weights_of_rank_0(&r);
        run_destroy(&r);
    }
    comm_configure(&before);
    assert_true(agree_all(ok));
}

/* An asynchronous pipeline has several versions of weights, each from rank 0. Losses equal those of dp to rounding. */
TEST(test_main_rank_trains_an_asynchronous_pipeline_as_dp_does) {
    const struct comm_settings before = *comm_settings_in_force();
    double loss[2][4] = {{0}};
    bool ok = true;
    if (comm_world_size() < 4) skip();
    for (int style = 0; style < 2 && ok; style++) {
        struct run r;
        struct plan p = parity_plan();
        main_rank_options(&p)->style = style;
        p.mesh.dp = p.mesh.pp = 2;
        model_options(&p)->tie = 0, p.clip = 0, p.micro_batch = 2;
        pp_options(&p)->schedule = SCHEDULE_PIPEDREAM;
        enum status status = open_run(&r, p);
        r.flush_at = 4;
        for (int i = 0; i < 4 && status == OK; i++) {
            status = run_step(&r);
            loss[style][i] = r.last.loss;
        }
        run_destroy(&r);
        ok = agree_all(status == OK);
    }
    comm_configure(&before);
    for (int i = 0; i < 4; i++) ok = ok && fabs(loss[1][i] / loss[0][i] - 1) < 1e-10;
    assert_true(agree_all(ok));
}

/* ---- checkpoints: saved by rank 0 alone, loaded by dp, and by one main rank again ---- */
static enum status resume(struct run *r, int style, const char *folder, double *loss) {
    char step[CHECKPOINT_PATH_MAX];
    struct plan p = replicas_plan();
    main_rank_options(&p)->style = style;
    TRY(open_run(r, p));
    TRY(checkpoint_resolve(folder, step));
    TRY(checkpoint_load(r, step, CHECKPOINT_ALL));
    TRY(run_step(r));
    TRY(run_step(r));
    *loss = r->last.loss;
    return OK;
}

static enum status save_and_go_on(struct run *r, const char *folder, double *loss) {
    TRY(run_steps(r, replicas_plan(), 2));
    TRY(checkpoint_save(r, folder, 0));
    TRY(run_step(r));
    TRY(run_step(r));
    *loss = r->last.loss;
    return OK;
}

TEST(test_main_ranks_checkpoint_is_loaded_by_dp_and_itself) {
    const struct comm_settings before = *comm_settings_in_force();
    char folder[CHECKPOINT_PATH_MAX];
    double expected = 0, found[2] = {0};
    struct run r;
    snprintf(folder, sizeof folder, "%s", test_path("main"));
    bool ok = agree_all(comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0) == OK);
    ok = ok && agree_all(save_and_go_on(&r, folder, &expected) == OK);
    run_destroy(&r);
    for (int style = 0; style < 2 && ok; style++) {
        ok = agree_all(resume(&r, style, folder, &found[style]) == OK);
        run_destroy(&r);
    }
    comm_configure(&before);
    ok = ok && fabs(found[DP_STYLE_ALL_REDUCE] / expected - 1) < 1e-10 && found[DP_STYLE_MAIN] == expected;
    assert_true(agree_all(ok));
}

/* ---- options ---- */
TEST(test_main_rank_prefers_its_algorithm_and_obeys_the_user) {
    struct plan p = replicas_plan();
    p.mesh.dp = 1, p.micro_batch = 2;
    struct plan told = p;
    snprintf(comm_options(&told)->algorithm, sizeof comm_options(&told)->algorithm, "dp=tree");
    assert_ok(plan_settle(&p, 1));
    assert_ok(plan_settle(&told, 1));
    assert_string_equal(comm_options(&p)->algorithm, "dp=main,edp=main");
    assert_string_equal(comm_options(&told)->algorithm, "dp=tree");
}

TEST(test_main_rank_refuses_in_one_line) {
    struct run r;
    struct plan p = main_plan(), fixed = main_plan(), zero = main_plan(), coded = main_plan();
    fixed.sums = PLAN_SUMS_FIXED;
    plan_set_number(&zero, "zero", 1);
    grad_options(&coded)->codec = CODEC_INT8;
    coded.mesh.dp = 2, coded.micro_batch = 1, coded.precision = PRECISION_FP32;
    assert_ok(plan_settle(&p, 1));
    assert_ok(technique_main_rank.check(&p));
    assert_fails(technique_main_rank.check(&fixed), E_CONFIG, "dp-style=main", "sums=fixed", "dp-style=all-reduce");
    assert_ok(plan_settle(&zero, 1));
    assert_fails(run_compile(&r, &train_recipe, &zero, 0, NULL, NULL), E_CONFIG, "dp-style=main", "zero", "leave");
    run_destroy(&r);
    assert_ok(plan_settle(&coded, 2));
    assert_fails(run_compile(&r, &train_recipe, &coded, 0, NULL, NULL), E_CONFIG, "dp-style=main", "grad-codec");
    run_destroy(&r);
}

TESTS(unit_test(test_main_rank_equals_serial_in_every_layout),
      unit_test(test_main_rank_sends_all_weights_and_gets_all_gradients),
      unit_test(test_main_rank_alone_has_the_optimizer), unit_test(test_every_replica_has_the_main_ranks_weights),
      unit_test(test_main_rank_trains_an_asynchronous_pipeline_as_dp_does),
      unit_test(test_main_ranks_checkpoint_is_loaded_by_dp_and_itself),
      unit_test(test_main_rank_prefers_its_algorithm_and_obeys_the_user),
      unit_test(test_main_rank_refuses_in_one_line))
