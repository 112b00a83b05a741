/* ranks: 1 2 4  device: cpu
 *
 * The norm and the bill of dp. dp all-reduces final gradients only. */
#include "dp/dp.h"
#include "dp/dp_bucket.h"
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "models/gpt/gpt.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static const struct technique *const ONLY_DP[] = {&technique_dp};
static const struct recipe RECIPE = {.techniques = ONLY_DP, .n_techniques = 1};

/* fp32 with 24 channels, so that vectors end inside a cache line and alignment gaps follow them. */
static struct plan small_plan(int dp) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.hidden = 24;
    plan.precision = PRECISION_FP32;
    plan.mesh.dp = dp;
    plan.micro_batch = plan.global_batch / dp;
    return plan;
}

TEST(test_dp_is_wanted_only_with_replicas) {
    struct plan one = small_plan(1), two = small_plan(2);
    assert_false(technique_dp.wanted(&one));
    assert_true(technique_dp.wanted(&two));
}

/* All replicas have the same all-reduced gradient, so in the norm each param counts once, not once per replica. */
TEST(test_dp_counts_each_param_on_one_replica) {
    int times[MAX_PARAMS] = {0}, n = 0;
    for (int rank = 0; rank < 4; rank++) {
        struct run r;
        struct plan plan = small_plan(4);
        assert_ok(plan_settle(&plan, 4));
        assert_ok(run_compile(&r, &RECIPE, &plan, rank, NULL, NULL));
        n = r.program.n_params;
        for (int i = 0; i < n; i++) times[i] += r.program.params[i].counted;
        run_destroy(&r);
    }
    for (int i = 0; i < n; i++) assert_int_equal(times[i], 1);
}

/* The bill is 2 S (n-1)/n, with S the bytes of all gradients and of the gaps within buckets. */
TEST(test_dp_bills_the_ring_formula) {
    struct run r;
    struct plan plan = small_plan(4);
    grad_options(&plan)->bucket_mb = 100;
    assert_ok(plan_settle(&plan, 4));
    assert_ok(run_compile(&r, &RECIPE, &plan, 0, NULL, NULL));
    assert_close(r.bill.wire_bytes[AXIS_DP], 2. * (double)r.memory.bytes[TIER_DEVICE][ROLE_GRAD] * 3 / 4, 0);
    run_destroy(&r);
}

/* ---- events, sent by hand ---- */
static bool tell(struct run *r, enum event_kind kind, int param, bool final) {
    struct event e = {.kind = kind, .param = param, .final = final};
    bool ok = true;
    for (int i = 0; i < r->n_subscriptions; i++)
        if (r->subscriptions[i].kind == kind) ok &= r->subscriptions[i].fn(r, r->subscriptions[i].self, &e) == OK;
    return ok;
}

static bool tell_all_ready(struct run *r, bool final) {
    bool ok = true;
    for (int i = r->program.n_params - 1; i >= 0; i--) ok &= tell(r, EVENT_GRAD_READY, i, final);
    return ok;
}

static int64_t n_sums(const struct run *r) {
    return group_ledger(r->mesh.group[AXIS_DP])->entry[COMM_ALL_REDUCE].calls;
}

static int64_t n_buckets(struct run *r) {
    struct dp_buckets d;
    if (dp_buckets_init(&d, &r->program, plan_bucket_bytes(&r->plan)) != OK) return -1;
    int64_t n = d.n;
    dp_buckets_fini(&d);
    return n;
}

struct outcome { bool created, waits_for_final, sums_once_final, no_gap_is_nan; };

/* The arena of a watched run starts as NaN; a gap left as NaN would be all-reduced. */
static bool gaps_are_numbers(const struct run *r) {
    int64_t end = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (; end < param_grad_offset(w); end++)
            if (*(char *)arena_at(&r->arenas[TIER_DEVICE][ROLE_GRAD], end) != 0) return false;
        end += type_bytes(&w->grad_type);
    }
    return true;
}

static struct outcome run_events(void) {
    struct run r;
    struct outcome o = {0};
    struct plan plan = small_plan(comm_world_size());
    o.created = plan_settle(&plan, comm_world_size()) == OK && run_create(&r, &RECIPE, &plan, true) == OK;
    if (!agree_all(o.created)) return o;
    for (int i = 0; i < r.program.n_params; i++)
        memset(r.program.params[i].grad, 0, (size_t)type_bytes(&r.program.params[i].type));
    group_ledger_reset(r.mesh.group[AXIS_DP]);
    o.waits_for_final = tell_all_ready(&r, false) && n_sums(&r) == 0;
    if (o.waits_for_final)                              /* otherwise all-reduces are in flight and must not start */
        o.sums_once_final = tell_all_ready(&r, true) && n_sums(&r) == (comm_world_size() > 1 ? n_buckets(&r) : 0);
    o.sums_once_final &= tell(&r, EVENT_BACKWARD_END, 0, false);
    o.no_gap_is_nan = comm_world_size() == 1 || gaps_are_numbers(&r);
    run_destroy(&r);
    return o;
}

TEST(test_dp_sums_final_gradients_only) {
    struct outcome o = run_events();
    assert_true(o.created);
    bool waits = agree_all(o.waits_for_final), sums = agree_all(o.sums_once_final), gaps = agree_all(o.no_gap_is_nan);
    assert_true(waits);
    assert_true(sums);
    assert_true(gaps);
}

/* ---- the noise scale ---- */

/* Lesson 24's example, of replicas of 4 samples each: n squares = 13.08, norm^2 = 10.74. */
TEST(test_dp_noise_solves_two_equations) {
    double trace, squared;
    dp_noise(16, 64, 13.08 / 16, sqrt(10.74), &trace, &squared);
    assert_close(trace, 2.34 / (1. / 4 - 1. / 64), 1e-12);
    assert_close(squared + trace / 4, 13.08, 1e-12);
    assert_close(squared + trace / 64, 10.74, 1e-12);
}

static struct plan noisy_plan(int dp, int64_t batch, int64_t micro) {
    struct plan p = parity_plan();
    p.layers = 2, p.lr = p.min_lr = p.weight_decay = 0;
    p.global_batch = batch, p.micro_batch = micro, p.mesh.dp = dp;
    model_options(&p)->dropout = 0;
    return p;
}

/* Add the gradient of sample s alone, by the serial run, to sum[]. @return the elements */
static int64_t add_gradient(struct run *r, int64_t s, double *sum) {
    int64_t n = 0;
    run_go_on_at_sample(r, s);
    if (run_step(r) != OK) return -1;
    for (int i = 0; i < r->program.n_params; i++)
        for (int64_t k = 0; k < type_n(&r->program.params[i].grad_type); k++, n++)
            sum[n] += ((double *)r->program.params[i].grad)[k];
    return n;
}

enum { MOST_ELEMENTS = 1 << 16 };
static double squares_of(const double *g, int64_t n, double divisor) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += g[i] / divisor * g[i] / divisor;
    return sum;
}

/* The definition, of the third batch: the mean squared norm of the mean gradients of n replicas' samples, and that of
 * the whole batch. */
static enum status direct(int n, int64_t batch, int64_t micro, double *small, double *large) {
    static double all[MOST_ELEMENTS], replica[MOST_ELEMENTS];
    struct run r = {0};
    struct plan p = noisy_plan(1, 1, 1);
    int64_t elements = 0;
    TRY(plan_settle(&p, 1));
    enum status status = run_create(&r, &train_recipe, &p, WATCH_NOTHING);
    if (status == OK) status = layout_use_demo(&r);
    memset(all, 0, sizeof all);
    *small = 0;
    for (int d = 0; d < n && status == OK; d++) {
        memset(replica, 0, sizeof replica);
        for (int64_t i = 0; i < batch / n && elements >= 0; i++)
            elements = add_gradient(&r, 2 * batch + schedule_first_sample(i / micro, d, n, micro) + i % micro,
                                    replica);
        *small += squares_of(replica, elements, (double)(batch / n)) / n;
        for (int64_t k = 0; k < elements; k++) all[k] += replica[k];
    }
    *large = squares_of(all, elements, (double)batch);
    run_destroy(&r);
    return elements < 0 ? E_INTERNAL : status;
}

/* Three steps of all ranks; row: the third one's keys. */
static enum status measure(int64_t batch, int64_t micro, json_t *row) {
    struct run r;
    struct plan p = noisy_plan(comm_world_size(), batch, micro);
    plan_set_number(&p, "noise-scale", 1);
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    for (int step = 0; step < 3 && status == OK; step++) status = run_step(&r);
    for (int i = 0; i < r.n_active && status == OK; i++)
        if (r.active[i]->report) status = r.active[i]->report(&r, r.self[i], row);
    run_destroy(&r);
    return status;
}

TEST(test_dp_noise_is_that_of_the_definition) {
    const int n = comm_world_size();
    if (n == 1) skip();
    for (int64_t micro = 1; micro <= 2; micro++) {
        const double B = 8, b = B / n;
        double small, large;
        json_t *row = json_object();
        enum status made = direct(n, 8, micro, &small, &large), status = measure(8, micro, row);
        double trace = json_number_value(json_object_get(row, "grad_noise")),
               squared = json_number_value(json_object_get(row, "grad_squared")),
               scale = json_number_value(json_object_get(row, "noise_scale"));
        json_decref(row);
        assert_ok(made);
        assert_ok(status);
        assert_true(trace > 0);
        assert_close(squared + trace / b, small, 1e-10 * small);
        assert_close(squared + trace / B, large, 1e-10 * small);
        assert_close(scale, squared > 0 ? trace / squared : 0, 1e-10 * fabs(scale));
    }
}

static enum status compile_noisy(struct plan p) {
    struct run r;
    plan_set_number(&p, "noise-scale", 1);
    enum status status = plan_settle(&p, 0);
    if (status == OK) status = run_compile(&r, &train_recipe, &p, 0, NULL, NULL), run_destroy(&r);
    return status;
}

TEST(test_dp_noise_refuses_parts_of_replicas) {
    struct plan p = noisy_plan(2, 8, 1);
    assert_ok(compile_noisy(p));
    p.mesh.tp = 2;
    assert_fails(compile_noisy(p), E_CONFIG, "2 ranks divide each", "tp 1");
    p = noisy_plan(1, 8, 1);
    assert_fails(compile_noisy(p), E_CONFIG, "dp=1", "dp 2");
    p = noisy_plan(2, 8, 1);
    plan_set_number(&p, "zero", 1);
    assert_fails(compile_noisy(p), E_CONFIG, "zero", "noise-scale");
    p = noisy_plan(2, 8, 1), p.precision = PRECISION_FP32, p.sums = PLAN_SUMS_FIXED, p.vocab = 128;
    assert_fails(compile_noisy(p), E_CONFIG, "sums=fixed", "use sums fast");
}

TESTS(unit_test(test_dp_noise_solves_two_equations), unit_test(test_dp_noise_is_that_of_the_definition),
      unit_test(test_dp_noise_refuses_parts_of_replicas), unit_test(test_dp_is_wanted_only_with_replicas),
      unit_test(test_dp_counts_each_param_on_one_replica),
      unit_test(test_dp_bills_the_ring_formula), unit_test(test_dp_sums_final_gradients_only))
