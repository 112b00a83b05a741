/* ranks: 1 2 4  more: 8  device: cpu  threads: 1
 *
 * Mixtures of experts, and expert parallelism, equal the serial run, together with every other technique. */
#include "ep/ep.h"
#include "cp/cp.h"
#include "driver/recipe.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct trial { int ep, dp, cp, by, tp, sp, pp, zero, offload, recompute, schedule, micro; } TRIALS[] = {
    {.ep = 1, .micro = 4}, {.ep = 1, .recompute = RECOMPUTE_FULL, .micro = 4},
    {.dp = 2}, {.ep = 2, .dp = 2}, {.ep = 2, .dp = 2, .micro = 2, .zero = 1},
    {.ep = 2, .dp = 2, .micro = 2, .zero = 3, .recompute = RECOMPUTE_FULL}, {.ep = 2, .cp = 2, .micro = 4},
    {.tp = 2, .micro = 4}, {.tp = 2, .sp = 1, .micro = 4}, {.pp = 2, .micro = 2},
    {.pp = 2, .micro = 2, .schedule = SCHEDULE_INTERLEAVED, .recompute = RECOMPUTE_SELECTIVE},
    {.ep = 2, .dp = 2, .zero = 1, .offload = OFFLOAD_OPTIMIZER},
    {.ep = 2, .dp = 4}, {.ep = 4, .dp = 4, .micro = 2}, {.ep = 2, .dp = 4, .zero = 1}, {.ep = 2, .dp = 4, .zero = 2},
    {.ep = 2, .dp = 4, .zero = 3, .micro = 2}, {.ep = 4, .dp = 4, .zero = 3, .recompute = RECOMPUTE_FULL},
    {.ep = 2, .dp = 4, .zero = 3, .offload = OFFLOAD_PARAMS}, {.ep = 2, .dp = 2, .cp = 2, .zero = 2},
    {.ep = 4, .dp = 2, .cp = 2, .by = CP_BY_GATHER, .micro = 2}, {.ep = 4, .dp = 2, .cp = 2, .by = CP_BY_ULYSSES},
    {.ep = 2, .dp = 2, .tp = 2}, {.ep = 2, .dp = 2, .tp = 2, .sp = 1, .zero = 1}, {.ep = 2, .dp = 2, .pp = 2},
    {.ep = 2, .dp = 2, .pp = 2, .micro = 2, .zero = 1, .schedule = SCHEDULE_INTERLEAVED},
    {.ep = 2, .dp = 2, .pp = 2, .micro = 1, .schedule = SCHEDULE_ZB_V, .recompute = RECOMPUTE_SELECTIVE},
    {.ep = 4, .dp = 8, .zero = 3}, {.ep = 4, .dp = 4, .cp = 2, .zero = 2}, {.ep = 8, .dp = 8, .micro = 1},
    {.ep = 2, .dp = 2, .tp = 2, .pp = 2, .micro = 2, .sp = 1, .zero = 1}, {.ep = 4, .dp = 2, .cp = 2, .pp = 2},
    {.ep = 2, .dp = 2, .cp = 2, .tp = 2, .sp = 1, .zero = 3, .recompute = RECOMPUTE_FULL},
    {.ep = 2, .dp = 2, .pp = 4, .micro = 1, .schedule = SCHEDULE_CHIMERA},
};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

static int at_least_1(int n) { return n ? n : 1; }

/* Two tokens of a group compete for one place, so a third are dropped. Even cp=2 tp=2 with sp splits no group. */
static struct plan serial_plan(const char *arch, int k, double capacity) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    assert_ok(recipe_arch(&p, arch));
    p.layers = 4;
    m->experts = 8, m->experts_per_token = k, m->moe_group = 2, m->capacity = capacity;
    m->aux_loss = 0.05, m->z_loss = 0.01;
    m->ffn = 24;
    if (!strcmp(arch, "mixtral")) m->tie = 0;
    return p;
}

static struct plan plan_of(struct plan p, const struct trial *t) {
    p.mesh.dp = at_least_1(t->dp), p.mesh.cp = at_least_1(t->cp), p.mesh.tp = at_least_1(t->tp);
    p.mesh.pp = at_least_1(t->pp), p.mesh.ep = at_least_1(t->ep);
    cp_options(&p)->by = t->by;
    plan_set_number(&p, "sp", t->sp);
    plan_set_number(&p, "zero", t->zero);
    zero_options(&p)->offload = t->offload;
    recompute_options(&p)->kind = t->recompute;
    pp_options(&p)->schedule = t->schedule ? t->schedule : SCHEDULE_1F1B;
    pp_options(&p)->chunks = t->schedule == SCHEDULE_INTERLEAVED ? 2 : 1;
    p.micro_batch = t->micro ? t->micro : 16 / p.mesh.dp;
    return p;
}

/* Check every `stride`-th layout of this world. packed: layouts pack rows, the serial run does not. */
static void check_layouts(struct plan serial, int stride, bool packed) {
    struct reference reference;
    int seen = 0, failed = 0;
    enum status status = reference_init(&reference, &serial);
    for (int i = 0; agree_all(status == OK) && i < N_TRIALS; i++) {
        struct plan p = plan_of(serial, &TRIALS[i]);
        model_options(&p)->moe_packed = packed;
        if (mesh_n_ranks(&p.mesh) != comm_world_size() || seen++ % stride) continue;
        enum status tried = plan_settle(&p, comm_world_size());
        failed += !layout_is_serial(&p, tried, &reference);
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_true(seen > 0);
    assert_int_equal(failed, 0);
}

TEST(test_every_layout_with_experts_equals_serial_fp64) {
    check_layouts(serial_plan("gpt", 2, 1), 1, false);
}

TEST(test_layouts_of_top_1_without_drops_equal_serial_fp64) {
    check_layouts(serial_plan("gpt", 1, 0), 3, false);
}

TEST(test_layouts_of_packed_experts_equal_the_padded_serial_run_fp64) {
    check_layouts(serial_plan("gpt", 2, 0), 2, true);
    check_layouts(serial_plan("mixtral", 2, 1), 3, true);
}

TEST(test_layouts_of_mixtral_equal_serial_fp64) {
    check_layouts(serial_plan("mixtral", 2, 1), 2, false);
}

/* Experts in every second layer, wider or narrower than the MLP of the others, with gates that are probabilities. */
TEST(test_layouts_of_experts_in_some_layers_equal_serial_fp64) {
    struct plan p = serial_plan("moe", 3, 1);
    model_options(&p)->tie = 0;
    plan_set_number(&p, "expert-ffn", 20);
    plan_set_word(&p, "expert-layers", "de", 0);
    plan_set_number(&p, "router-norm", 0);
    check_layouts(p, 2, false);
    check_layouts(p, 4, true);
}

/* Experts with biases and a clamped gate, padded and packed; windows and biases of attention. */
TEST(test_layouts_of_gpt_oss_equal_serial_fp64) {
    struct plan p = serial_plan("gpt_oss", 3, 1);
    void *limit;
    model_options(&p)->tie = 0;
    plan_set_word(&p, "attention-bias", "all", 0);
    plan_set_number(&p, "window", 3);
    plan_set_word(&p, "window-layers", "sf", 0);
    plan_set_number(&p, "expert-bias", 1);
    plan_set_number(&p, "router-bias", 1);
    assert_non_null(plan_option(&p, "swiglu-limit", &limit));
    *(double *)limit = 0.05;
    check_layouts(p, 2, false);
    check_layouts(p, 3, true);
}

/* ---- refusals ---- */
/* Refused before a program is built: the types of an impossible mesh cannot be inferred. */
static void check_refused(struct plan p, const char *what, const char *remedy) {
    struct run r;
    assert_ok(plan_settle(&p, 0));
    assert_fails(technique_ep.check(&p), E_CONFIG, what, remedy);
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, what, remedy);
    run_destroy(&r);
}

TEST(test_ep_refuses) {
    struct plan p = plan_of(serial_plan("gpt", 2, 1), &(struct trial){.ep = 2, .dp = 2});
    model_options(&p)->experts = 0;
    check_refused(p, "ep=2 shards experts, and experts=0", "leave ep out");
    check_refused(plan_of(serial_plan("gpt", 2, 1), &(struct trial){.ep = 3, .dp = 4}), "ep=3", "1, 2, 4");
    check_refused(plan_of(serial_plan("gpt", 2, 1), &(struct trial){.ep = 4, .dp = 2}), "dp x cp = 2", "1, 2");
}

TESTS(unit_test(test_every_layout_with_experts_equals_serial_fp64),
      unit_test(test_layouts_of_top_1_without_drops_equal_serial_fp64),
      unit_test(test_layouts_of_packed_experts_equal_the_padded_serial_run_fp64),
      unit_test(test_layouts_of_mixtral_equal_serial_fp64),
      unit_test(test_layouts_of_experts_in_some_layers_equal_serial_fp64),
      unit_test(test_layouts_of_gpt_oss_equal_serial_fp64), unit_test(test_ep_refuses))
