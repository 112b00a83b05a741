/* ranks: 1 2 4  more: 8  device: cpu
 *
 * Promises 1 and 2 for combinations: every technique with every other. All legal combinations of
 *
 *   dp x tp x pp   sp   zero 0-3 with offload   recompute   schedule with chunks   microbatch size
 *   attention, masks and loss chunk
 *
 * are enumerated; a subset is run in which every pair of values that can meet does meet (pairwise covering). LONG=1
 * runs all of them (with microbatches of 1, and attention in turn). MATRIX=text runs those whose name contains it. */
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the axes of choice: a combination is a value for each ---- */
enum { SHAPE, SP, ZERO, RECOMPUTE, SCHEDULE, MICRO, CORE, N_CHOICES, MAX_VALUES = 16 };
struct combination { int value[N_CHOICES]; };

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

static struct { int dp, tp, pp; } shapes[MAX_VALUES];
static int n_shapes;

static void list_shapes(int world) {
    n_shapes = 0;
    for (int dp = 1; dp <= world; dp++)
        for (int tp = 1; dp * tp <= world; tp++)
            if (world % (dp * tp) == 0) {
                shapes[n_shapes].dp = dp;
                shapes[n_shapes].tp = tp;
                shapes[n_shapes++].pp = world / (dp * tp);
            }
}

static const int *choices(void) {
    static int n[N_CHOICES] = {0, 2, COUNT(ZEROS), COUNT(RECOMPUTES), COUNT(SCHEDULES), COUNT(MICROS), COUNT(CORES)};
    n[SHAPE] = n_shapes;
    return n;
}

/* The plan of a combination; false when it is not legal (some technique refuses it). */
static bool plan_of(const struct combination *c, struct plan *p) {
    const int *v = c->value;
    *p = parity_plan();
    p->mesh.dp = shapes[v[SHAPE]].dp;
    p->mesh.tp = shapes[v[SHAPE]].tp;
    p->mesh.pp = shapes[v[SHAPE]].pp;
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
    struct run r = {0};
    bool legal = plan_settle(p, plan_ranks(p)) == OK && run_compile(&r, &train_recipe, p, 0, NULL, NULL) == OK;
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

/* To know whether one is legal is to compile it: each rank does its share. */
static enum status list_legal(struct list *all) {
    int total = 1;
    for (int i = 0; i < N_CHOICES; i++) total *= choices()[i];
    double *legal = calloc((size_t)total, sizeof *legal);
    all->at = calloc((size_t)total, sizeof *all->at);
    if (!legal || !all->at) return FAIL(E_MEMORY, "no memory for %d combinations", total);
    for (int k = comm_world_rank(); k < total; k += comm_world_size()) {
        struct combination c = combination_of(k);
        struct plan p;
        legal[k] = plan_of(&c, &p);
    }
    enum status status = comm_all_reduce(group_world(), legal, total, FP64, COMM_SUM);
    for (int k = 0; k < total; k++)
        if (legal[k] > 0) all->at[all->n++] = combination_of(k);
    free(legal);
    return status;
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

static struct list choose_covering(const struct list *all) {
    static struct pairs seen;
    struct list chosen = {calloc((size_t)all->n + 1, sizeof *chosen.at), 0};
    memset(&seen, 0, sizeof seen);
    while (chosen.at) {
        int best = -1, most = 0;
        for (int i = 0; i < all->n; i++) {
            int fresh = new_pairs(&seen, &all->at[i]);
            if (fresh > most) {
                most = fresh;
                best = i;
            }
        }
        if (best < 0) break;
        meet(&seen, &all->at[best]);
        chosen.at[chosen.n++] = all->at[best];
    }
    return chosen;
}

/* Everything, but for the choices that are not techniques: microbatches of 1, attention cores in turn. */
static struct list choose_all(const struct list *all) {
    struct list chosen = {calloc((size_t)all->n + 1, sizeof *chosen.at), 0};
    for (int i = 0; i < all->n && chosen.at; i++) {
        const int *v = all->at[i].value;
        int turn = (v[SHAPE] + v[SP] + v[ZERO] + v[RECOMPUTE] + v[SCHEDULE]) % COUNT(CORES);
        if (v[MICRO] == 0 && v[CORE] == turn) chosen.at[chosen.n++] = all->at[i];
    }
    return chosen;
}

/* ---- running ---- */
static bool is_same(const struct difference *d) {
    return d->loss < 1e-10 && d->norm < 1e-10 && d->grad < 1e-10 && d->weight < 1e-10 && d->memory == 0 &&
           d->wire < 1e-12 && d->padding == 0;
}

static bool try_combination(const struct combination *c, const struct reference *ref) {
    struct plan p;
    struct difference d = {0};
    const char *filter = getenv("MATRIX");
    if (!plan_of(c, &p) || (filter && !strstr(layout_name(&p), filter))) return true;
    enum status status = layout_compare(&p, ref, &d);
    bool ok = agree_all(status == OK && is_same(&d));
    if ((!ok || filter) && comm_is_rank_0())
        fprintf(stderr, "%s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B wire %.1e padding %g\n",
                layout_name(&p), status_name(status), d.loss, d.norm, d.grad, d.weight, d.memory, d.wire, d.padding);
    status_report();
    return ok;
}

static void test_every_pair_of_techniques_composes(void **state) {
    (void)state;
    struct reference ref;
    struct plan plan = parity_plan();
    struct list all = {0};
    int failed = 0;
    list_shapes(comm_world_size());
    assert_ok(list_legal(&all));
    struct list chosen = getenv("LONG") ? choose_all(&all) : choose_covering(&all);
    enum status status = reference_init(&ref, &plan);
    bool ready = agree_all(status == OK && chosen.n > 0);
    for (int i = 0; ready && i < chosen.n; i++) failed += !try_combination(&chosen.at[i], &ref);
    if (comm_is_rank_0())
        printf("    %d of %d legal combinations of %d ranks\n", chosen.n, all.n, comm_world_size());
    reference_fini(&ref);
    free(all.at);
    free(chosen.at);
    assert_ok(status);
    assert_true(ready);
    assert_int_equal(failed, 0);
}

TESTS(unit_test(test_every_pair_of_techniques_composes))
