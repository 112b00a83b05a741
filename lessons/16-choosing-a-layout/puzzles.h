/* Shared by the layout puzzles: layouts for imaginary clusters, priced as by trivium plan, and compared with the best
 * layout of its search. A file defines THE_PUZZLES, {model and batch, cluster, ranks} each, and includes this. */
#include "driver/recipe.h"
#include "planner/explain.h"
#include "planner/search.h"
#include "tests/layout_table.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct puzzle { const char *model, *cluster; int ranks; };
static const struct puzzle PUZZLES[] = {THE_PUZZLES};
enum { N_PUZZLES = sizeof PUZZLES / sizeof *PUZZLES };
static const double FAIR = 1.25;

/* The given options and those of `layout` (may be ""). */
static enum status parse(const struct puzzle *p, char *layout, struct plan *plan) {
    char given[256];
    snprintf(given, sizeof given, "%s --precision bf16 --device cuda", p->model);
    return layout_parse(given, layout, "dp, tp, pp, cp, sp, zero, recompute, micro-batch, schedule, chunks, pp-split",
                        plan);
}

/* ---- prices ---- */
static enum status price_of_layout(int number, struct price *out) {
    const struct puzzle *p = &PUZZLES[number - 1];
    char text[LAYOUT_BYTES];
    struct plan plan;
    struct cluster c;
    TRY(layout_read(number, text));
    bool uneven = strstr(text, "pp-split") != NULL;
    TRY(parse(p, text, &plan));
    TRY(plan_settle(&plan, p->ranks));
    TRY(cluster_read(p->cluster, &c));
    return price_plan(&train_recipe, &plan, &c, &(struct price_wish){.uneven = uneven}, out);
}

/* Seconds of the best layout that the search finds. Each puzzle is searched once. */
static double planners(int number) {
    static double known[N_PUZZLES];
    const struct puzzle *p = &PUZZLES[number - 1];
    char nothing[] = "";
    struct plan asked;
    struct cluster c;
    struct search *s;
    if (known[number - 1] > 0) return known[number - 1];
    assert_ok(parse(p, nothing, &asked));
    assert_ok(cluster_read(p->cluster, &c));
    assert_non_null(s = calloc(1, sizeof *s));
    assert_ok(search_layouts(&train_recipe, &asked, 0, &c, p->ranks, true, s));
    known[number - 1] = s->n_best ? s->best[0].price.step_s : NAN;
    search_fini(s);
    free(s);
    return known[number - 1];
}

#define GIB 1073741824.0
/* Fail unless the layout fits and takes at most `most` times the seconds of the planner's best. */
static double check(int number, double most, const char *wanted) {
    static struct price x;
    struct cluster c;
    assert_ok(price_of_layout(number, &x));
    assert_ok(cluster_read(PUZZLES[number - 1].cluster, &c));
    if (!x.fits)
        fail_msg("layout %d takes %.1f GiB on its fullest stage; there are %.1f", number, (double)x.total_bytes / GIB,
                 (double)(c.memory_bytes - c.reserve_bytes) / GIB);
    double best = planners(number);
    if (!(x.step_s < most * best)) {
        int longest = PRICE_REPLAY;
        for (int i = PRICE_REPLAY; i < N_PRICE_PHASES; i++)
            if (x.phase_s[i] > x.phase_s[longest]) longest = i;
        fail_msg("a step of layout %d takes %.3f s, and the planner's %.3f: %s. Besides products and memory, most goes "
                 "into %s: %.3f s",
                 number, x.step_s, best, wanted, price_phase_name((enum price_phase)longest), x.phase_s[longest]);
    }
    return x.step_s / best;
}

static void fair(int number) { check(number, FAIR, "at most 1.25 times as long is asked for here"); }
static void good(int number) { check(number, 1 + MODEL_ERROR, "more than the model's error, 3.3 %"); }
