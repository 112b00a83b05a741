/* ranks: 1  more: 2 4 8  device: cpu  threads: 1
 *
 * Promises 1 and 2 for combinations: every technique with every other. All legal combinations of
 *
 *   dp x cp x tp x pp   cp's form   ep   sp   recompute   schedule with chunks
 *   which ranks sum gradients and keep states: all, zero 1-3 with offload, shard and secondary, the main rank, servers
 *   model   attention, masks and loss chunk   park   microbatch size
 *
 * are enumerated. A sample is drawn by number (CANDIDATES). A subset of the sample is run that covers every pair of
 * values in the sample (pairwise covering). LONG=1 runs all combinations of techniques, with microbatches of
 * 1, and models, attention and parking in turn; LONG=3/20 the third of twenty parts of them, because those of 8 ranks
 * take hours. MATRIX=text runs those whose name contains it. */
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "tests/combinations.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANDIDATES = 12000 };

/* A step may refuse what no technique refuses, because its input has another shape than it needs. */
static bool compiles(const struct plan *p) {
    struct run r = {0};
    bool legal = run_compile(&r, &train_recipe, p, 0, NULL, NULL) == OK;
    run_destroy(&r);
    status_clear();
    return legal;
}

/* ---- enumeration ---- */
struct list { struct combination *at; int n; };

/* LONG: combination k of techniques; models (each with its ep), attention and parking are taken in turn. */
static struct combination in_company(int k) {
    struct combination c = combination_of(k);
    int turn = 0;
    for (int i = 0; i < N_TECHNIQUES; i++) turn += i == EP ? 0 : c.value[i];
    c.value[CORE] = turn % combination_choices()[CORE];
    c.value[MODEL] = turn / 2 % combination_choices()[MODEL];
    c.value[PARK] = turn / 3 % combination_choices()[PARK];
    return c;
}

/* Is k in the sample? A multiplicative hash spreads it. */
static bool is_in_sample(int k, int total) {
    return (uint32_t)k * UINT32_C(2654435761) < UINT32_MAX * fmin(1, (double)CANDIDATES / total);
}

/* Is k in the part that LONG=part/parts asks for? */
static bool is_in_part(int k) {
    int part = 0, parts = 1;
    const char *text = getenv("LONG");
    return !text || sscanf(text, "%d/%d", &part, &parts) != 2 || k % parts == part % parts;
}

static enum status list_candidates(struct list *list) {
    bool all = getenv("LONG") != NULL;
    int total = combination_count(all ? N_TECHNIQUES : N_CHOICES);
    list->at = calloc((size_t)total, sizeof *list->at);
    if (!list->at) return FAIL(E_MEMORY, "no memory for %d combinations", total);
    for (int k = 0, n = 0; k < total; k++) {
        struct plan p;
        if (!all && !is_in_sample(k, total)) continue;
        list->at[list->n] = all ? in_company(k) : combination_of(k);
        if (combination_plan(&list->at[list->n], &p)) list->n += is_in_part(n++);
    }
    return OK;
}

/* ---- pairwise covering: greedily the combination with the most pairs that no earlier one has ---- */
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

/* The candidate with the most new pairs; -1: no candidate has any. */
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
    if (!combination_plan(c, &p) || !compiles(&p)) return ILLEGAL;
    if (filter && !strstr(layout_name(&p), filter)) return SAME;
    enum status status = layout_compare(&p, &refs[c->value[MODEL]], &d);
    bool ok = agree_all(status == OK && is_same(&d));
    if ((!ok || filter) && comm_is_rank_0())
        dprintf(STDERR_FILENO, "%s, %d experts, %s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B "
                "wire %.1e padding %g\n", combination_arch(c->value[MODEL]), (int)model_options(&p)->experts,
                layout_name(&p), status_name(status), d.loss, d.norm, d.grad, d.weight, d.memory, d.wire, d.padding);
    status_report();
    return ok ? SAME : DIFFERENT;
}

/* Run all candidates, or a covering choice; whether one is legal is found on the way. */
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

TEST(test_every_pair_of_techniques_composes) {
    struct reference refs[COMBINATION_MODELS];
    struct list all = {0};
    int n[] = {[ILLEGAL] = 0, [SAME] = 0, [DIFFERENT] = 0};
    combinations_of_world(comm_world_size());
    assert_ok(list_candidates(&all));
    int candidates = all.n;
    for (int m = 0; m < COMBINATION_MODELS; m++) {
        struct plan plan = combination_model(m);
        assert_ok(reference_init(&refs[m], &plan));
    }
    run_candidates(&all, refs, n);
    if (comm_is_rank_0() && (getenv("LONG") || getenv("MATRIX")))
        dprintf(STDERR_FILENO, "%d of %d combinations of %d ranks\n", n[SAME] + n[DIFFERENT], candidates,
                comm_world_size());
    for (int m = 0; m < COMBINATION_MODELS; m++) reference_fini(&refs[m]);
    free(all.at);
    assert_true(n[SAME] > 0);
    assert_int_equal(n[DIFFERENT], 0);
}

TESTS(unit_test(test_every_pair_of_techniques_composes))
