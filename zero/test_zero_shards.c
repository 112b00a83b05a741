/* ranks: 1 2 4  more: 8  device: cpu
 *
 * States, and second copies of weights, that are sharded over only some replicas. Every layout equals the serial run,
 * and bytes equal their formulas. */

#include "driver/recipe.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include "zero/zero_second.h"
#include <string.h>

/* node: ranks per emulated node; `shard` or `second` is then the expected number of replicas. */
static const struct trial {
    int dp, cp, ep, tp, sp, pp, zero, shard, second, node, offload, recompute, schedule, micro;
} TRIALS[] = {
    {.dp = 1, .zero = 2, .shard = 1},
    {.dp = 2, .zero = 1, .shard = 2}, {.dp = 2, .zero = 3, .shard = 2, .node = 2, .micro = 2},
    {.dp = 4, .zero = 1, .shard = 2}, {.dp = 4, .zero = 2, .shard = 2, .micro = 2},
    {.dp = 4, .zero = 3, .shard = 2, .micro = 1},
    {.dp = 4, .zero = 3, .shard = 2, .node = 2, .recompute = RECOMPUTE_FULL},
    {.dp = 4, .zero = 1, .shard = 2, .offload = OFFLOAD_OPTIMIZER, .micro = 2},
    {.dp = 4, .zero = 3, .shard = 2, .offload = OFFLOAD_PARAMS}, {.dp = 2, .cp = 2, .zero = 3, .shard = 2},
    {.cp = 4, .zero = 2, .shard = 2}, {.dp = 4, .ep = 2, .zero = 1, .shard = 2},
    {.dp = 4, .ep = 4, .zero = 3, .shard = 2},
    {.dp = 2, .cp = 2, .ep = 2, .zero = 2, .shard = 2, .micro = 2},
    {.dp = 4, .tp = 2, .sp = 1, .zero = 3, .shard = 2, .node = 4},
    {.dp = 4, .pp = 2, .zero = 2, .shard = 2, .micro = 1},
    {.dp = 4, .pp = 2, .zero = 3, .shard = 2, .micro = 1, .schedule = SCHEDULE_INTERLEAVED},
    {.dp = 4, .pp = 2, .zero = 1, .shard = 2, .micro = 1, .schedule = SCHEDULE_ZB_V},
    {.dp = 4, .pp = 2, .zero = 1, .shard = 2, .node = 2, .micro = 1, .schedule = SCHEDULE_CHIMERA},
    {.dp = 8, .zero = 3, .shard = 2, .node = 2}, {.dp = 8, .zero = 1, .shard = 4, .micro = 1},
    {.dp = 8, .ep = 2, .zero = 3, .shard = 4}, {.dp = 8, .ep = 4, .zero = 2, .shard = 2},
    {.dp = 4, .cp = 2, .zero = 3, .shard = 4, .recompute = RECOMPUTE_SELECTIVE},
    {.dp = 4, .cp = 2, .zero = 2, .shard = 2},
    {.dp = 2, .zero = 3, .second = 1, .micro = 2}, {.dp = 2, .zero = 3, .second = 1, .offload = OFFLOAD_PARAMS},
    {.dp = 4, .zero = 3, .second = 2, .micro = 1}, {.dp = 4, .zero = 3, .second = 2, .node = 2, .micro = 2},
    {.dp = 4, .zero = 3, .second = 2, .recompute = RECOMPUTE_FULL}, {.dp = 2, .cp = 2, .zero = 3, .second = 2},
    {.dp = 4, .zero = 3, .second = 1, .recompute = RECOMPUTE_SELECTIVE},
    {.dp = 4, .zero = 3, .second = 2, .offload = OFFLOAD_PARAMS, .micro = 2},
    {.dp = 4, .ep = 2, .zero = 3, .second = 2}, {.dp = 2, .cp = 2, .ep = 4, .zero = 3, .second = 2},
    {.dp = 4, .tp = 2, .sp = 1, .zero = 3, .second = 2, .node = 4}, {.dp = 8, .zero = 3, .second = 4, .micro = 1},
    {.dp = 4, .pp = 2, .zero = 3, .second = 2, .micro = 1, .schedule = SCHEDULE_INTERLEAVED},
    {.dp = 4, .pp = 2, .zero = 3, .second = 2, .micro = 1, .schedule = SCHEDULE_ZB_V},
    {.dp = 4, .pp = 2, .zero = 3, .second = 2, .node = 2, .micro = 1, .schedule = SCHEDULE_CHIMERA},
    {.dp = 8, .ep = 2, .zero = 3, .second = 4}, {.dp = 4, .cp = 2, .ep = 4, .zero = 3, .second = 2},
};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

static int at_least_1(int n) { return n ? n : 1; }

static struct plan serial_plan(bool experts) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.layers = 4;
    if (experts)
        m->experts = 8, m->experts_per_token = 2, m->moe_group = 2, m->capacity = 1, m->aux_loss = 0.05, m->ffn = 24;
    return p;
}

static struct plan plan_of(struct plan p, const struct trial *t) {
    p.mesh.dp = at_least_1(t->dp), p.mesh.cp = at_least_1(t->cp), p.mesh.tp = at_least_1(t->tp);
    p.mesh.pp = at_least_1(t->pp), p.mesh.ep = at_least_1(t->ep);
    plan_set_number(&p, "sp", t->sp);
    zero_options(&p)->stage = t->zero;
    zero_options(&p)->offload = t->offload;
    zero_options(&p)->shard = t->node && t->shard ? SHARD_NODE : t->shard;
    zero_options(&p)->secondary = t->node && t->second ? SHARD_NODE : t->second;
    comm_options(&p)->ranks_per_node = t->node;
    recompute_options(&p)->kind = t->recompute;
    pp_options(&p)->schedule = t->schedule ? t->schedule : SCHEDULE_1F1B;
    pp_options(&p)->chunks = t->schedule == SCHEDULE_INTERLEAVED ? 2 : 1;
    p.micro_batch = t->micro ? t->micro : 16 / p.mesh.dp;
    return p;
}

static void check_layouts(bool experts) {
    struct reference reference;
    int seen = 0, failed = 0;
    struct plan serial = serial_plan(experts);
    enum status status = reference_init(&reference, &serial);
    for (int i = 0; agree_all(status == OK) && i < N_TRIALS; i++) {
        struct plan p = plan_of(serial, &TRIALS[i]);
        if (mesh_n_ranks(&p.mesh) != comm_world_size() || experts != (TRIALS[i].ep > 0)) continue;
        enum status tried = plan_settle(&p, comm_world_size());
        bool as_told = tried != OK || p.mesh.shard == TRIALS[i].shard + TRIALS[i].second;
        failed += !layout_is_serial(&p, tried, &reference) || !as_told;
        seen++;
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_true(seen > 0 || (experts && comm_world_size() < 4));
    assert_int_equal(failed, 0);
}

TEST(test_layouts_with_copies_of_the_shards_equal_serial_fp64) {
    check_layouts(false);
}
TEST(test_experts_with_copies_of_the_shards_equal_serial_fp64) {
    check_layouts(true);
}

/* ---- bytes, by the formulas: pure ---- */
static struct plan settled(struct trial t) {
    struct plan p = plan_of(serial_plan(t.ep > 1), &t);
    assert_ok(plan_settle(&p, 0));
    return p;
}

/* S bytes of weights. At stage 2 gathers and scatters send (m + 1) S (L-1)/L within a part of L ranks. Between the N
 * parts, all-reduces send 2 (S/L) (N-1)/N, of own elements without padding. */
static void check_wire(int dp, int shard, int m) {
    struct plan p = settled((struct trial){.dp = dp, .zero = 2, .shard = shard, .micro = 16 / dp / m});
    double L = shard, N = (double)dp / shard;
    for (int rank = 0; rank < dp; rank++) {
        struct run r;
        assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
        double inside = 0, between = 0;
        for (int i = 0; i < r.program.n_params; i++) {
            const struct param *w = &r.program.params[i];
            int uses = w->uses;                                      /* the tied embedding has two */
            inside += (double)w->padded_n * 8 * (L - 1) / L * (m * uses + 1);
            between += 2 * (double)w->own_n * 8 * (N - 1) / N;
        }
        assert_close(r.bill.wire_bytes[AXIS_SHARD], inside, 1e-9 * inside);
        assert_close(r.bill.wire_bytes[AXIS_REPLICATE], between, 1e-9 * between);
        assert_close(r.bill.wire_bytes[AXIS_DP], 0, 0);
        run_destroy(&r);
    }
}

TEST(test_copies_sum_once_a_step_between_parts) {
    for (int m = 1; m <= 2; m++) check_wire(8, 4, m), check_wire(8, 2, m), check_wire(4, 2, m);
}

/* A rank's bytes depend on L only: N parts of L replicas need the bytes of L replicas in all. */
TEST(test_states_of_a_part_are_those_of_as_many_replicas) {
    for (int zero = 1; zero <= 3; zero++) {
        struct plan many = settled((struct trial){.dp = 8, .zero = zero, .shard = 4, .micro = 2}),
                    few = settled((struct trial){.dp = 4, .zero = zero, .micro = 2});
        for (int rank = 0; rank < 8; rank++) {
            struct run a, b;
            assert_ok(run_compile(&a, &train_recipe, &many, rank, NULL, NULL));
            assert_ok(run_compile(&b, &train_recipe, &few, rank % 4, NULL, NULL));
            for (enum role role = ROLE_PARAM; role <= ROLE_OPTIM; role++)
                assert_int_equal(a.memory.bytes[TIER_DEVICE][role], b.memory.bytes[TIER_DEVICE][role]);
            run_destroy(&a);
            run_destroy(&b);
        }
    }
}

/* ---- the second copy ---- */
/* Check a plan with second shards over L of the replicas. Forward gathers over all replicas. Backward gathers within L,
 * and only the weights that it reads. Role param has P / L more, for P bytes of those weights. */
static void check_second(int dp, int L, int m) {
    struct plan with = settled((struct trial){.dp = dp, .zero = 3, .second = L, .micro = 16 / dp / m}), without = with;
    zero_options(&without)->secondary = 0;
    assert_ok(plan_settle(&without, 0));
    for (int rank = 0; rank < dp; rank++) {
        struct run a, b;
        int64_t second = 0;
        double saved = 0;
        assert_ok(run_compile(&a, &train_recipe, &with, rank, NULL, NULL));
        assert_ok(run_compile(&b, &train_recipe, &without, rank, NULL, NULL));
        for (int i = 0; i < a.program.n_params; i++) {
            const struct param *w = &a.program.params[i];
            bool read = strstr(w->name, ".g") || (strstr(w->name, ".w") && !strstr(w->name, "wpe"));
            const struct param_array *kept = zero_second_of(w);
            assert_int_equal(kept ? kept->n : 0, read ? w->padded_n / L : 0);
            second += kept ? arena_align(kept->n * 8) : 0;
            saved += kept ? (double)(kept->n * L) * 8 * m : 0;              /* backward gathers it m times */
        }
        assert_close((double)(a.memory.bytes[TIER_DEVICE][ROLE_PARAM] - b.memory.bytes[TIER_DEVICE][ROLE_PARAM]),
                     (double)second, 64);
        assert_close(a.bill.wire_bytes[AXIS_SHARD], saved * (L - 1) / L, 1e-9 * saved);
        assert_close(b.bill.wire_bytes[AXIS_DP] - a.bill.wire_bytes[AXIS_DP], saved * (dp - 1) / dp, 1e-9 * saved);
        run_destroy(&a);
        run_destroy(&b);
    }
}

TEST(test_second_copies_keep_gathers_of_backward_within_a_part) {
    for (int m = 1; m <= 2; m++) check_second(8, 4, m), check_second(8, 2, m), check_second(4, 2, m);
}

/* ---- nodes ---- */
static int64_t shard_on_nodes(struct trial t, int placement, enum status *status) {
    struct plan p = plan_of(serial_plan(false), &t);
    comm_options(&p)->placement = placement;
    p.micro_batch = 1;
    zero_options(&p)->shard = SHARD_NODE;
    *status = plan_settle(&p, 0);
    return p.mesh.shard;
}

TEST(test_node_is_as_many_replicas_as_a_node_has) {
    static const struct trial fours[] = {
        {.dp = 8, .zero = 1, .node = 4}, {.dp = 8, .tp = 2, .zero = 1, .node = 8},
        {.dp = 4, .cp = 2, .tp = 2, .zero = 1, .node = 8}, {.dp = 4, .pp = 2, .zero = 1, .node = 8},
        {.dp = 4, .zero = 1, .node = 16}};
    enum status status;
    for (size_t i = 0; i < sizeof fours / sizeof *fours; i++) {
        assert_int_equal(shard_on_nodes(fours[i], PLACEMENT_BLOCK, &status), 4);
        assert_ok(status);
    }
    shard_on_nodes((struct trial){.dp = 8, .zero = 1, .node = 3}, PLACEMENT_BLOCK, &status);
    assert_fails(status, E_CONFIG, "3 of the 8 replicas", "use one of 1, 2, 4, 8");
    shard_on_nodes((struct trial){.dp = 4, .tp = 2, .zero = 1, .node = 2}, PLACEMENT_BLOCK, &status);
    assert_fails(status, E_CONFIG, "on a node of its own", "smaller tp");
    shard_on_nodes((struct trial){.dp = 8, .zero = 1, .node = 4}, PLACEMENT_CYCLIC, &status);
    assert_fails(status, E_CONFIG, "on a node of its own");
    shard_on_nodes((struct trial){.dp = 4, .pp = 2, .zero = 1, .node = 6}, PLACEMENT_BLOCK, &status);
    assert_fails(status, E_CONFIG, "4 of the 4 replicas", "not every node has 4");
}

/* ---- refusals ---- */
static void check_refused(struct trial t, const char *what, const char *remedy) {
    struct plan p = plan_of(serial_plan(t.ep > 1), &t);
    p.micro_batch = 1;
    assert_ok(plan_settle(&p, 0));
    assert_fails(technique_zero.check(&p), E_CONFIG, what, remedy);
}

TEST(test_shards_refuse) {
    check_refused((struct trial){.dp = 4, .shard = 2}, "shard belongs to zero", "use zero 1, 2 or 3");
    check_refused((struct trial){.dp = 4, .zero = 1, .shard = 3}, "shard=3", "use one of 1, 2, 4");
    check_refused((struct trial){.dp = 4, .zero = 1, .shard = 8}, "the 4 replicas", "use one of 1, 2, 4");
    check_refused((struct trial){.dp = 4, .zero = 3, .shard = 1}, "shard=1 shares nothing", "shard 4");
    check_refused((struct trial){.dp = 4, .cp = 3, .ep = 2, .zero = 1, .shard = 3}, "shard=3 and ep=2", "use 2");
    check_refused((struct trial){.dp = 4, .second = 2}, "zero-secondary belongs to zero", "use zero 1, 2 or 3");
    check_refused((struct trial){.dp = 4, .zero = 2, .second = 2}, "zero=2", "use zero 3");
    check_refused((struct trial){.dp = 4, .zero = 3, .second = 4}, "zero-secondary=4 is all replicas",
                  "leave zero-secondary out");
    check_refused((struct trial){.dp = 8, .zero = 3, .shard = 4, .second = 2}, "with shard no gather",
                  "leave shard out, or zero-secondary");
    check_refused((struct trial){.dp = 4, .zero = 3, .second = 3}, "zero-secondary=3", "use one of 1, 2, 4");
    struct plan p = plan_of(serial_plan(false), &(struct trial){.dp = 4, .zero = 1, .shard = 2});
    p.sums = PLAN_SUMS_FIXED;
    p.mesh.shard = 2;
    assert_fails(technique_zero.check(&p), E_CONFIG, "sums=fixed", "use shard 4");
    p.sums = PLAN_SUMS_FAST, p.mesh.dp = 16, zero_options(&p)->shard = SHARD_NODE;
    assert_fails(plan_settle(&p, 0), E_CONFIG, "no job whose nodes", "--ranks-per-node");
}

TESTS(unit_test(test_layouts_with_copies_of_the_shards_equal_serial_fp64),
      unit_test(test_experts_with_copies_of_the_shards_equal_serial_fp64),
      unit_test(test_copies_sum_once_a_step_between_parts),
      unit_test(test_states_of_a_part_are_those_of_as_many_replicas),
      unit_test(test_second_copies_keep_gathers_of_backward_within_a_part),
      unit_test(test_node_is_as_many_replicas_as_a_node_has), unit_test(test_shards_refuse))
