/* ranks: 1  device: cpu
 *
 * Layouts for imaginary clusters: the project's planner computes the bytes that every rank keeps and sends (run_compile
 * is pure), and a simple model the time of a step. layout.txt describes both. */
#include "driver/recipe.h"
#include "driver/setup.h"
#include "models/gpt/gpt.h"
#include "pp/pp.h"
#include "tests/layout_table.h"
#include "tests/test.h"
#include <inttypes.h>
#include <stdio.h>

/* A cluster and a model: ranks, ranks per node; bytes of memory per rank; bytes/s that a rank sends within a node and
 * between nodes; flop/s of a rank. */
struct puzzle { int ranks, node; double memory, within, between, flops; const char *model; double good, best; };
enum { N_PUZZLES = 2 };
static const struct puzzle PUZZLES[N_PUZZLES] = {
    {8, 8, 8e9, 200e9, 20e9, 150e12, "--model gpt3-1.3b --precision bf16 --global-batch 64 --loss-chunk 0", 1.2, 1.1},
    {32, 8, 12e9, 200e9, 5e9, 150e12, "--model gpt3-6.7b --precision bf16 --global-batch 256 --loss-chunk 0", 6.5,
     5.9}};

static enum status parse(const struct puzzle *p, char *layout, struct plan *plan) {
    char given[256];
    snprintf(given, sizeof given, "%s --device cpu", p->model);
    TRY(layout_parse(given, layout, "dp, tp, pp, sp, zero, recompute, micro-batch, schedule, chunks", plan));
    return plan_settle(plan, p->ranks);
}

/* ---- estimate of a layout, as in layout.txt ---- */
struct estimate { double memory, compute, bubble, wire[N_MESH_AXES], seconds; };

static double bandwidth(const struct puzzle *p, const struct plan *plan, enum mesh_axis axis) {
    /* an upper bound of the distance from a group's first rank to its last */
    int64_t span = axis == AXIS_TP ? plan->mesh.tp : axis == AXIS_DP ? plan->mesh.tp * plan->mesh.dp : plan_ranks(plan);
    return span <= p->node && p->node % span == 0 ? p->within : p->between;
}

static enum status add_stage(const struct puzzle *p, const struct plan *plan, int stage, struct estimate *e) {
    struct run r;
    struct mesh_place place = mesh_place_of(&plan->mesh, 0);
    place.rank.pp = stage;
    enum status status = run_compile(&r, &train_recipe, plan, mesh_rank_of(&place), NULL, NULL);
    double memory = 0, compute = 0;
    for (enum role role = 0; role < N_ROLES; role++) memory += (double)r.memory.bytes[TIER_DEVICE][role];
    for (int kind = 0; kind < N_ROW_KINDS; kind++) compute += r.bill.flops[kind] / p->flops;
    if (memory > e->memory) e->memory = memory;
    if (compute > e->compute) e->compute = compute;
    for (enum mesh_axis a = AXIS_TP; a < AXIS_MESH; a++) {
        double seconds = r.bill.wire_bytes[a] / bandwidth(p, plan, a);
        if (seconds > e->wire[a]) e->wire[a] = seconds;
    }
    run_destroy(&r);
    return status;
}

static enum status estimate(const struct puzzle *p, const struct plan *plan, struct estimate *e) {
    *e = (struct estimate){0};
    for (int stage = 0; stage < plan->mesh.pp; stage++) TRY(add_stage(p, plan, stage, e));
    double work = e->compute + e->wire[AXIS_TP] + e->wire[AXIS_PP];
    e->bubble = work * (double)(plan->mesh.pp - 1) / (double)(pp_options(plan)->chunks * plan->n_microbatches);
    e->seconds = work + e->bubble + e->wire[AXIS_DP] + e->wire[AXIS_TIE];
    return OK;
}

static enum status judge(int number, struct estimate *e) {
    char text[LAYOUT_BYTES];
    struct plan plan;
    const struct puzzle *p = &PUZZLES[number - 1];
    TRY(layout_read(number, text));
    TRY(parse(p, text, &plan));
    TRY(estimate(p, &plan, e));
    printf("    layout %d: dp %" PRId64 " tp %" PRId64 " pp %" PRId64
           ", %d microbatches: %.1f GB of %.0f; compute %.2f s, bubble %.2f, tp %.2f, pp %.2f, dp "
           "%.2f: %.2f s, and %.2f is wanted\n",
           number, plan.mesh.dp, plan.mesh.tp, plan.mesh.pp, plan.n_microbatches, e->memory / 1e9, p->memory / 1e9,
           e->compute, e->bubble, e->wire[AXIS_TP], e->wire[AXIS_PP], e->wire[AXIS_DP] + e->wire[AXIS_TIE], e->seconds,
           p->best);
    return OK;
}

static void check(int number, bool best) {
    struct estimate e;
    const struct puzzle *p = &PUZZLES[number - 1];
    assert_ok(judge(number, &e));
    if (e.memory > p->memory)
        fail_msg("layout %d keeps %.2f GB on its fullest rank; there are %.0f", number, e.memory / 1e9,
                 p->memory / 1e9);
    double wanted = best ? p->best : p->good;
    if (e.seconds > wanted)
        fail_msg("layout %d takes %.2f s a step; at most %.2f are wanted", number, e.seconds, wanted);
}

TEST(test_layout_1_fits_and_is_good) { check(1, false); }
TEST(test_layout_1_is_among_the_best) { check(1, true); }
TEST(test_layout_2_fits_and_is_good) { check(2, false); }
TEST(test_layout_2_is_among_the_best) { check(2, true); }

TESTS(unit_test(test_layout_1_fits_and_is_good), unit_test(test_layout_1_is_among_the_best),
      unit_test(test_layout_2_fits_and_is_good), unit_test(test_layout_2_is_among_the_best))
