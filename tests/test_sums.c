/* ranks: 1 2  more: 4 8  device: cpu
 *
 * --sums fixed: losses, norms, gradients and weights have the bits of the serial run in every layout, with one thread
 * or two, and every byte is still predicted. LONG=1: all sizes of microbatches instead of a choice. */
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/program/sums.h"
#include "mixed_precision/mixed_precision.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tally { const struct reference *reference; int seen, failed; };
typedef void go_through(const struct plan *, struct tally *);

static struct plan fixed_plan(const char *arch, enum plan_precision precision) {
    struct plan p = parity_plan();
    assert_ok(recipe_arch(&p, arch));
    if (strcmp(arch, "gpt")) model_options(&p)->kv_heads = p.heads / 2, model_options(&p)->ffn = 24;
    p.sums = PLAN_SUMS_FIXED;
    p.precision = precision;
    mixed_precision_options(&p)->grad_fp32 = precision == PRECISION_BF16;
    return p;
}

static bool is_same(const struct difference *d) {
    return d->loss == 0 && d->norm == 0 && d->grad == 0 && d->weight == 0 && d->padding == 0;
}
static bool is_predicted(const struct difference *d) { return d->memory == 0 && d->wire < 1e-12; }

static void try_layout(void *self, const struct plan *p) {
    struct tally *t = self;
    struct difference d = {0};
    const char *filter = getenv("PARITY");
    if (filter && !strstr(layout_name(p), filter)) return;
    omp_set_num_threads(t->seen % 4 == 3 ? 2 : 1);                   /* two are slow on leaves of a few numbers */
    enum status status = layout_compare(p, t->reference, &d);
    bool ok = agree_all(status == OK && is_same(&d) && is_predicted(&d));
    t->seen++;
    t->failed += !ok;
    if ((!ok || filter) && comm_is_rank_0())
        fprintf(stderr, "%s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B wire %.1e\n", layout_name(p),
                status_name(status), d.loss, d.norm, d.grad, d.weight, d.memory, d.wire);
    status_report();
}

static void try_all(struct plan plan, go_through *go) {
    struct reference ref;
    struct tally t = {&ref, 0, 0};
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    enum status status = reference_init(&ref, &plan);
    if (agree_all(status == OK)) go(&plan, &t);
    reference_fini(&ref);
    omp_set_num_threads(threads);
    assert_ok(status);
    assert_true(getenv("PARITY") || t.seen >= 2);
    assert_int_equal(t.failed, 0);
}

/* ---- every mesh and schedule ---- */
static void try_chosen(void *self, const struct plan *p) {
    int sizes = 0;
    while ((1 << sizes) * p->mesh.dp <= p->global_batch && 1 << sizes <= 4) sizes++;
    bool chosen = p->micro_batch == 1 << (p->mesh.dp + p->mesh.tp + pp_options(p)->schedule) % sizes;
    if (layouts_want_all() || (chosen && !pp_options(p)->split[0]) || getenv("PARITY")) try_layout(self, p);
}
static void every_mesh(const struct plan *plan, struct tally *t) {
    layouts_each(plan, comm_world_size(), try_chosen, t);
    struct plan whole = *plan;                                       /* and all of a replica's samples at once */
    whole.mesh.dp = comm_world_size();
    whole.micro_batch = 0;
    if (agree_all(plan_settle(&whole, comm_world_size()) == OK)) try_layout(t, &whole);
}
TEST(test_every_mesh_and_schedule_has_the_same_bits) {
    try_all(fixed_plan("gpt", PRECISION_FP32), every_mesh);
}

/* ---- every technique: zero 1 to 3, offload, recompute, sp, pipelines in both directions ---- */
static void some_companies(const struct plan *plan, struct tally *t, int from) {
    int world = comm_world_size();                                   /* on one rank many companies are alike */
    int step = layouts_want_all() ? 1 : world == 8 ? 2 : world == 1 ? 6 : 4;
    for (int i = from + (step == 4 && world == 4 ? 2 : 0); i < N_COMPANIES; i += step) {
        struct plan p = layout_in_company(*plan, i);
        if (agree_all(plan_settle(&p, comm_world_size()) == OK)) try_layout(t, &p);
        else status_report();
    }
}
/* Backward gathers second shards (zero/), except those for a weight's further gradients. */
static void second_shards(const struct plan *plan, struct tally *t) {
    struct plan p = *plan;
    p.mesh.dp = comm_world_size(), p.micro_batch = 2;
    plan_set_number(&p, "zero", 3), zero_options(&p)->secondary = p.mesh.dp > 2 ? 2 : 0;
    if (agree_all(plan_settle(&p, comm_world_size()) == OK)) try_layout(t, &p);
    else status_report();
}
static void even_companies(const struct plan *plan, struct tally *t) {
    some_companies(plan, t, 0);
    second_shards(plan, t);
}
static void odd_companies(const struct plan *plan, struct tally *t) { some_companies(plan, t, 1); }

TEST(test_gpt_has_the_same_bits_with_every_technique) {
    try_all(fixed_plan("gpt", PRECISION_FP32), even_companies);
    try_all(fixed_plan("gpt", PRECISION_BF16), odd_companies);
}
TEST(test_llama_has_the_same_bits_with_every_technique) {
    try_all(fixed_plan("llama", PRECISION_FP32), odd_companies);
    try_all(fixed_plan("llama", PRECISION_BF16), even_companies);
}

/* ---- a run resumed in another layout has the bits of a run resumed in its own ---- */
static enum status train(struct plan p, int n, const char *resume, const char *save, double *loss) {
    struct run r;
    char step[CHECKPOINT_PATH_MAX];
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    if (status == OK && resume) status = checkpoint_resolve(resume, step);
    if (status == OK && resume) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    for (int i = 0; i < n && status == OK; i++) status = run_step(&r);
    *loss = r.last.loss;
    if (status == OK && save) status = checkpoint_save(&r, save, 0);
    run_destroy(&r);
    return status;
}

static void other_layouts(const struct plan *plan, struct tally *t) {
    char folder[CHECKPOINT_PATH_MAX];
    double before, after;
    snprintf(folder, sizeof folder, "%s", test_path("goes-on"));
    (void)comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0);
    enum status status = train(layout_in_company(*plan, 2), PARITY_STEPS - 1, NULL, folder, &before);
    if (agree_all(status == OK)) status = train(layout_in_company(*plan, 8), 1, folder, NULL, &after);
    t->seen = 2;
    t->failed = !agree_all(status == OK && before == t->reference->loss[PARITY_STEPS - 2] &&
                           after == t->reference->loss[PARITY_STEPS - 1]);
    status_report();
}

TEST(test_a_run_goes_on_in_another_layout_with_the_same_bits) {
    try_all(fixed_plan("gpt", PRECISION_FP32), other_layouts);
}

/* ---- an order in which microbatches have no neighbors ---- */
static struct action *backward_of(struct schedule *s, int microbatch) {
    struct action *a = s->actions;
    while (a->kind != ACTION_B || a->microbatch != microbatch) a++;
    return a;
}
static void exchange(struct schedule *s, int i, int k) {
    struct action *a = backward_of(s, i), *b = backward_of(s, k);
    a->microbatch = k, b->microbatch = i;
}

TEST(test_only_microbatches_in_order_are_added_by_halves) {
    struct run r;
    struct plan p = fixed_plan("gpt", PRECISION_FP32);
    p.micro_batch = 4;
    p.mesh.dp = 1;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    exchange(&r.schedule, 0, 3), exchange(&r.schedule, 1, 2);        /* from last to first is an order, too */
    assert_ok(sums_mark(&r.program, r.chunks, &r.schedule));
    exchange(&r.schedule, 1, 2);
    assert_fails(sums_mark(&r.program, r.chunks, &r.schedule), E_CONFIG, "microbatch 1", "no neighbor",
                 "use schedule=1f1b", "sums=fast");
    run_destroy(&r);
}

/* ---- fast sums have other bits, or else the tests above would prove nothing ---- */
static void one_fast(const struct plan *plan, struct tally *t) {
    struct plan p = *plan;
    struct difference d;
    p.micro_batch = 2;
    p.sums = PLAN_SUMS_FAST;
    p.mesh.dp = comm_world_size();
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = layout_compare(&p, t->reference, &d);
    t->seen = 2;
    t->failed = !agree_all(status == OK && !is_same(&d));
}
TEST(test_fast_sums_have_other_bits) {
    try_all(fixed_plan("gpt", PRECISION_FP32), one_fast);
}

TESTS(unit_test(test_every_mesh_and_schedule_has_the_same_bits),
      unit_test(test_gpt_has_the_same_bits_with_every_technique),
      unit_test(test_llama_has_the_same_bits_with_every_technique), unit_test(test_fast_sums_have_other_bits),
      unit_test(test_a_run_goes_on_in_another_layout_with_the_same_bits),
      unit_test(test_only_microbatches_in_order_are_added_by_halves))
