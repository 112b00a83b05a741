/* ranks: 1 2 4  more: 8  device: cpu
 *
 * Promises 1 and 2 for combinations: every technique with every other. All legal combinations of
 *
 *   dp x cp x tp x pp   cp's form   ep   sp   zero 0-3 with offload   recompute   schedule with chunks
 *   model   microbatch size   attention, masks and loss chunk
 *
 * are enumerated. Of a sample of them (CANDIDATES, drawn by number) a subset is run in which every pair of values that
 * meets in the sample does meet (pairwise covering). LONG=1 runs all combinations of techniques, with microbatches of
 * 1, and the models and attention in turn; LONG=3/20 the third of twenty parts of them, since those of 8 ranks take
 * hours. MATRIX=text runs those whose name contains it. */
#include "cp/cp.h"
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the axes of choice: a combination is a value for each ---- */
enum { SHAPE, CP_FORM, EP, SP, ZERO, RECOMPUTE, SCHEDULE, MODEL, MICRO, CORE, N_CHOICES };
enum { MAX_VALUES = 24, CANDIDATES = 12000 };
struct combination { int value[N_CHOICES]; };

static const struct { int by, heads; } CP_FORMS[] = {
    {CP_BY_RING, 1}, {CP_BY_RING, 2}, {CP_BY_ULYSSES, 1}, {CP_BY_GATHER, 1}};
static const int EPS[] = {1, 2, 4};
static const struct { const char *arch; int experts; } MODELS[] = {
    {"gpt", 0}, {"gpt", 8}, {"llama", 0}, {"mixtral", 8}};
static const struct { int zero, offload; } ZEROS[] = {
    {0, OFFLOAD_NONE}, {1, OFFLOAD_NONE}, {2, OFFLOAD_NONE}, {3, OFFLOAD_NONE},
    {1, OFFLOAD_OPTIMIZER}, {2, OFFLOAD_OPTIMIZER}, {3, OFFLOAD_OPTIMIZER}, {3, OFFLOAD_PARAMS}};
static const struct { int kind, n; } RECOMPUTES[] = {
    {RECOMPUTE_NONE, 0}, {RECOMPUTE_SELECTIVE, 0}, {RECOMPUTE_FULL, 0}, {RECOMPUTE_UNIFORM, 2}, {RECOMPUTE_BLOCK, 1}};
static const struct { int kind, chunks; } SCHEDULES[] = {
    {SCHEDULE_GPIPE, 1}, {SCHEDULE_1F1B, 1}, {SCHEDULE_INTERLEAVED, 2}, {SCHEDULE_INTERLEAVED, 4}};
static const int MICROS[] = {1, 2};
static const struct { int attention, masks, loss_chunk; } CORES[] = {
    {ATTENTION_BLOCKED, MASKS_REDRAW, 0}, {ATTENTION_BLOCKED, MASKS_REDRAW, 5},
    {ATTENTION_MATERIALISED, MASKS_REDRAW, 5}, {ATTENTION_MATERIALISED, MASKS_STORE, 0}};
#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))

static struct { int dp, cp, tp, pp; } shapes[MAX_VALUES];
static int n_shapes;

static void list_shapes(int world) {
    n_shapes = 0;
    for (int dp = 1; dp <= world; dp++)
        for (int cp = 1; dp * cp <= world; cp++)
            for (int tp = 1; dp * cp * tp <= world; tp++)
                if (world % (dp * cp * tp) == 0) {
                    shapes[n_shapes].dp = dp;
                    shapes[n_shapes].cp = cp;
                    shapes[n_shapes].tp = tp;
                    shapes[n_shapes++].pp = world / (dp * cp * tp);
                }
}

static const int *choices(void) {
    static int n[N_CHOICES] = {
        [CP_FORM] = COUNT(CP_FORMS), [EP] = COUNT(EPS), [SP] = 2, [ZERO] = COUNT(ZEROS),
        [RECOMPUTE] = COUNT(RECOMPUTES), [SCHEDULE] = COUNT(SCHEDULES), [MODEL] = COUNT(MODELS),
        [MICRO] = COUNT(MICROS), [CORE] = COUNT(CORES)};
    n[SHAPE] = n_shapes;
    return n;
}

/* The model alone, on one rank. Groups of two tokens compete for one place of an expert: a third is dropped. Mixtral
 * drops none, and its rows are packed. */
static struct plan plan_of_model(int model) {
    const char *arch = MODELS[model].arch;
    struct plan p = parity_plan();
    assert_ok(recipe_arch(&p, arch));
    if (strcmp(arch, "gpt")) p.kv_heads = p.heads / 2, p.ffn = 24, p.tie = 0;
    p.experts = MODELS[model].experts;
    if (p.experts) p.experts_per_token = 2, p.moe_group = 2, p.capacity = 1, p.aux_loss = 0.05;
    if (!strcmp(arch, "mixtral")) p.capacity = 0, p.moe_packed = 1;
    return p;
}

/* The plan of a combination; false when a technique refuses it. */
static bool plan_of(const struct combination *c, struct plan *p) {
    const int *v = c->value;
    *p = plan_of_model(v[MODEL]);
    p->mesh.dp = shapes[v[SHAPE]].dp;
    p->mesh.cp = shapes[v[SHAPE]].cp;
    p->mesh.tp = shapes[v[SHAPE]].tp;
    p->mesh.pp = shapes[v[SHAPE]].pp;
    p->mesh.ep = EPS[v[EP]];
    p->mesh.cp_heads = CP_FORMS[v[CP_FORM]].heads;
    cp_options(p)->by = CP_FORMS[v[CP_FORM]].by;
    tp_options(p)->sp = v[SP];
    zero_options(p)->stage = ZEROS[v[ZERO]].zero;
    zero_options(p)->offload = ZEROS[v[ZERO]].offload;
    recompute_options(p)->kind = RECOMPUTES[v[RECOMPUTE]].kind;
    recompute_options(p)->n = RECOMPUTES[v[RECOMPUTE]].n;
    pp_options(p)->schedule = SCHEDULES[v[SCHEDULE]].kind;
    pp_options(p)->chunks = SCHEDULES[v[SCHEDULE]].chunks;
    p->micro_batch = MICROS[v[MICRO]];
    p->attention = CORES[v[CORE]].attention;
    p->dropout_masks = CORES[v[CORE]].masks;
    p->loss_chunk = CORES[v[CORE]].loss_chunk;
    enum status status = plan_settle(p, plan_ranks(p));
    for (int i = 0; i < train_recipe.n_techniques && status == OK; i++) {
        const struct technique *t = train_recipe.techniques[i];
        if (t->wanted(p) && t->check) status = t->check(p);
    }
    status_clear();
    return status == OK;
}

/* What no technique refuses, a step may yet: where it is put, it has not the shape that it wants. */
static bool compiles(const struct plan *p) {
    struct run r = {0};
    bool legal = run_compile(&r, &train_recipe, p, 0, NULL, NULL) == OK;
    run_destroy(&r);
    status_clear();
    return legal;
}

/* ---- enumeration ---- */
struct list { struct combination *at; int n; };

static struct combination combination_of(int k) {
    const int *n = choices();
    struct combination c = {{0}};
    for (int i = 0; i < N_CHOICES; k /= n[i++]) c.value[i] = k % n[i];
    return c;
}

/* Whether combination k of `total` is looked at. LONG: all, but for the choices that are not techniques: microbatches
 * of 1, and the models (each with its ep) and attention in turn. Else a sample, spread by a multiplicative hash. */
static bool is_candidate(int k, int total) {
    struct combination c = combination_of(k);
    const int *v = c.value;
    if (!getenv("LONG")) return (uint32_t)k * UINT32_C(2654435761) < UINT32_MAX * fmin(1, (double)CANDIDATES / total);
    int turn = v[SHAPE] + v[CP_FORM] + v[SP] + v[ZERO] + v[RECOMPUTE] + v[SCHEDULE];
    return v[MICRO] == 0 && v[CORE] == turn % COUNT(CORES) && v[MODEL] == turn / 2 % COUNT(MODELS);
}

/* LONG=part/parts: those that are due in this one. */
static bool is_in_part(int k) {
    int part = 0, parts = 1;
    const char *text = getenv("LONG");
    return !text || sscanf(text, "%d/%d", &part, &parts) != 2 || k % parts == part % parts;
}

static enum status list_candidates(struct list *list) {
    int total = 1;
    for (int i = 0; i < N_CHOICES; i++) total *= choices()[i];
    list->at = calloc((size_t)total, sizeof *list->at);
    if (!list->at) return FAIL(E_MEMORY, "no memory for %d combinations", total);
    for (int k = 0, n = 0; k < total; k++) {
        struct plan p;
        if (!is_candidate(k, total)) continue;
        list->at[list->n] = combination_of(k);
        if (plan_of(&list->at[list->n], &p)) list->n += is_in_part(n++);
    }
    return OK;
}

/* ---- pairwise covering: greedily the combination that covers most pairs not met before ---- */
struct pairs { bool met[N_CHOICES][MAX_VALUES][N_CHOICES][MAX_VALUES]; };

static int new_pairs(const struct pairs *seen, const struct combination *c) {
    int fresh = 0;
    for (int i = 0; i < N_CHOICES; i++)
        for (int j = i + 1; j < N_CHOICES; j++) fresh += !seen->met[i][c->value[i]][j][c->value[j]];
    return fresh;
}
static void meet(struct pairs *seen, const struct combination *c) {
    for (int i = 0; i < N_CHOICES; i++)
        for (int j = i + 1; j < N_CHOICES; j++) seen->met[i][c->value[i]][j][c->value[j]] = true;
}

/* The candidate that meets most pairs; -1: none is left that meets any. */
static int find_next(const struct pairs *seen, const struct list *all) {
    int best = -1, most = 0;
    for (int i = 0; i < all->n; i++) {
        int fresh = new_pairs(seen, &all->at[i]);
        if (fresh <= most) continue;
        most = fresh;
        best = i;
    }
    return best;
}

/* ---- running ---- */
static bool is_same(const struct difference *d) {
    return d->loss < 1e-10 && d->norm < 1e-10 && d->grad < 1e-10 && d->weight < 1e-10 && d->memory == 0 &&
           d->wire < 1e-12 && d->padding == 0;
}

enum outcome { ILLEGAL, SAME, DIFFERENT };
static enum outcome try_combination(const struct combination *c, const struct reference refs[]) {
    struct plan p;
    struct difference d = {0};
    const char *filter = getenv("MATRIX");
    if (!plan_of(c, &p) || !compiles(&p)) return ILLEGAL;
    if (filter && !strstr(layout_name(&p), filter)) return SAME;
    enum status status = layout_compare(&p, &refs[c->value[MODEL]], &d);
    bool ok = agree_all(status == OK && is_same(&d));
    if ((!ok || filter) && comm_is_rank_0())
        fprintf(stderr, "%s, %d experts, %s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B wire %.1e "
                "padding %g\n", MODELS[c->value[MODEL]].arch, (int)p.experts, layout_name(&p), status_name(status),
                d.loss, d.norm, d.grad, d.weight, d.memory, d.wire, d.padding);
    status_report();
    return ok ? SAME : DIFFERENT;
}

/* All, or a covering choice: which of them is legal turns out on the way. */
static void run_candidates(struct list *all, const struct reference refs[], int n[3]) {
    static struct pairs seen;
    memset(&seen, 0, sizeof seen);
    while (all->n > 0) {
        int next = getenv("LONG") ? all->n - 1 : find_next(&seen, all);
        if (next < 0) break;
        enum outcome outcome = try_combination(&all->at[next], refs);
        if (outcome != ILLEGAL) meet(&seen, &all->at[next]);
        n[outcome]++;
        all->at[next] = all->at[--all->n];
    }
}

static void test_every_pair_of_techniques_composes(void **state) {
    (void)state;
    struct reference refs[COUNT(MODELS)];
    struct list all = {0};
    int n[] = {[ILLEGAL] = 0, [SAME] = 0, [DIFFERENT] = 0};
    list_shapes(comm_world_size());
    assert_ok(list_candidates(&all));
    int candidates = all.n;
    for (int m = 0; m < COUNT(MODELS); m++) {
        struct plan plan = plan_of_model(m);
        assert_ok(reference_init(&refs[m], &plan));
    }
    run_candidates(&all, refs, n);
    if (comm_is_rank_0())
        printf("    %d of %d combinations of %d ranks\n", n[SAME] + n[DIFFERENT], candidates, comm_world_size());
    for (int m = 0; m < COUNT(MODELS); m++) reference_fini(&refs[m]);
    free(all.at);
    assert_true(n[SAME] > 0);
    assert_int_equal(n[DIFFERENT], 0);
}

TESTS(unit_test(test_every_pair_of_techniques_composes))
