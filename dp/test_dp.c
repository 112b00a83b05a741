/* ranks: 1 2 4  device: cpu
 *
 * The norm and the bill of dp. dp all-reduces final gradients only. */
#include "dp/dp.h"
#include "dp/dp_bucket.h"
#include "lib/run/run.h"
#include "models/gpt/gpt.h"
#include "tests/layouts.h"
#include "tests/test.h"

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

TESTS(unit_test(test_dp_is_wanted_only_with_replicas), unit_test(test_dp_counts_each_param_on_one_replica),
      unit_test(test_dp_bills_the_ring_formula), unit_test(test_dp_sums_final_gradients_only))
