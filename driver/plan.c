/* trivium plan: a layout on a cluster that need not be at hand. The program of every stage is compiled, as for a run,
 * and priced (planner/price.h). */
#include "driver/plan.h"

#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/clock.h"
#include "planner/search.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* plan first: plan_options' offsets hold */
struct request { struct plan plan; int64_t gpus, top; int json; };

static const struct option OPTIONS[] = {
    {"gpus", OPTION_INT, "0", 0, 1 << 24, NULL, "ranks",
     "search the layouts of so many, but for what is given; 0: the layout is given", "plan",
     offsetof(struct request, gpus)},
    {"top", OPTION_INT, "5", 1, MAX_BEST, NULL, "", "with gpus: how many layouts to show", "plan",
     offsetof(struct request, top)},
    {"json", OPTION_BOOL, "off", 0, 0, NULL, "", "as JSON", "plan", offsetof(struct request, json)},
};

#define GIB 1073741824.0
static const char *layout_of(const struct plan *p) {
    static char text[128];
    return mesh_sizes_text(&p->mesh, text, sizeof text);
}
static double tokens_of(const struct plan *p) { return (double)p->global_batch * (double)p->seq; }

/* ---- as text ---- */
static void print_phases(const struct price *x) {
    printf("  of which");
    for (int i = 0; i < N_PRICE_PHASES; i++)
        if (x->phase_s[i] > 0.0005 * x->step_s)
            printf(" %s %.1f%%", price_phase_name((enum price_phase)i), 100 * x->phase_s[i] / x->step_s);
    printf("\n");
}

static void print_memory(const struct price *x, const struct cluster *c) {
    double all = (double)c->memory_bytes / GIB, reserve = (double)c->reserve_bytes / GIB;
    printf("  memory  %.2f GiB of %.1f, less a reserve of %.1f: %s\n  of which", (double)x->total_bytes / GIB, all,
           reserve, x->fits ? "it fits" : "it does not fit");
    for (int i = 0; i < N_ROLES; i++)
        if (x->bytes[i]) printf(" %s %.2f", role_name((enum role)i), (double)x->bytes[i] / GIB);
    if (x->fullest > 0) printf("  (stage %d)", x->fullest);
    printf("\n");
}

static void print_text(const struct plan *p, const struct cluster *c, const struct price *x) {
    printf("%s on %d x %s: %s, micro-batch %" PRId64 ", %d microbatches\n", p->model, plan_ranks(p), c->name,
           layout_of(p), p->micro_batch, p->n_microbatches);
    printf("  step    %.4g s, %.4g tokens/s, mfu %.1f%%\n", x->step_s, tokens_of(p) / x->step_s, 100 * x->mfu);
    print_phases(x);
    print_memory(x, c);
}

/* ---- as JSON ---- */
static enum status print_json(const struct plan *p, const struct cluster *c, const struct price *x) {
    json_t *phases = json_object(), *bytes = json_object();
    for (int i = 0; i < N_PRICE_PHASES; i++)
        json_object_set_new(phases, price_phase_name((enum price_phase)i), json_real(x->phase_s[i]));
    for (int i = 0; i < N_ROLES; i++) json_object_set_new(bytes, role_name((enum role)i), json_integer(x->bytes[i]));
    json_t *all = json_pack("{s:{s:s, s:s, s:s, s:i, s:f, s:f, s:I, s:b, s:o, s:o}}", "plan", "cluster", c->name,
                            "model", p->model, "layout", layout_of(p), "ranks", plan_ranks(p), "step_s", x->step_s,
                            "mfu", x->mfu, "memory_bytes", (json_int_t)x->total_bytes, "fits", x->fits, "phases_s",
                            phases, "bytes", bytes);
    if (!all) return FAIL(E_MEMORY, "no memory to print the plan");
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
    return OK;
}

/* ---- a search ---- */
/* Where the time of one goes that the other does not take: the three largest differences. */
static void print_differences(const struct price *x, const struct price *best) {
    bool told[N_PRICE_PHASES] = {false};
    for (int n = 0; n < 3; n++) {
        int most = -1;
        for (int i = 0; i < N_PRICE_PHASES; i++)
            if (!told[i] && (most < 0 || fabs(x->phase_s[i] - best->phase_s[i]) >
                                             fabs(x->phase_s[most] - best->phase_s[most]))) most = i;
        double seconds = x->phase_s[most] - best->phase_s[most];
        told[most] = true;
        if (fabs(seconds) > 0.002 * best->step_s)
            printf("%s %s %+.3g s", n ? "," : "", price_phase_name((enum price_phase)most), seconds);
    }
}

static void print_family(const struct family *f, const struct found *best) {
    char text[128];
    printf("  %-11s %-10s", decision_name(f->decision), choice_text(f->decision, f->choice));
    if (!f->fits) {
        printf("does not fit: %.1f GiB", (double)f->best.price.total_bytes / GIB);
    } else if (f->best.price.step_s <= best->price.step_s) {
        printf("is the best's\n");
        return;
    } else {
        printf("+%.1f%%  ", 100 * (f->best.price.step_s / best->price.step_s - 1));
        print_differences(&f->best.price, &best->price);
    }
    printf("   [%s]\n", layout_text(&f->best.layout, text, sizeof text));
}

/* Is there another choice? */
static bool is_open(const struct search *s, int i) {
    enum decision d = s->families[i].decision;
    return (i > 0 && s->families[i - 1].decision == d) || (i + 1 < s->n_families && s->families[i + 1].decision == d);
}

static void print_search(const struct request *q, const struct cluster *c, const struct search *s, double seconds) {
    char text[128];
    const struct search_stat *n = &s->stat;
    printf("%s on %" PRId64 " x %s, global batch %" PRId64 "\n", q->plan.model, q->gpus, c->name, q->plan.global_batch);
    printf("%" PRId64 " layouts: %" PRId64 " cannot be, %" PRId64 " do not fit, %" PRId64 " are cut by a bound, "
           "%" PRId64 " timed; %.2f s\n\n",
           n->seen, n->refused, n->too_large + n->no_fit, n->bound, n->priced - n->no_fit, seconds);
    for (int i = 0; i < s->n_best && i < q->top; i++) {
        const struct price *x = &s->best[i].price;
        printf("%9.4g s  mfu %4.1f%%  %5.1f GiB  %s\n", x->step_s, 100 * x->mfu, (double)x->total_bytes / GIB,
               layout_text(&s->best[i].layout, text, sizeof text));
        print_phases(x);
    }
    printf("\nwhy others lose: the best of each family beside the best of all, and where its time goes\n");
    for (int i = 0; i < s->n_families; i++)
        if (is_open(s, i)) print_family(&s->families[i], s->n_best ? &s->best[0] : NULL);
}

/* The least infeasible one, its largest role, and what would help. */
static enum status refuse_all(const struct request *q, const struct cluster *c, const struct search *s) {
    const struct price *x = &s->smallest.price;
    double room = (double)(c->memory_bytes - c->reserve_bytes) / GIB;
    char text[128];
    int largest = 0;
    for (int i = 1; i < N_ROLES; i++)
        if (x->bytes[i] > x->bytes[largest]) largest = i;
    return FAIL(E_CONFIG,
                "no layout of gpus=%" PRId64 " fits: the smallest, %s, takes %.1f GiB of %.1f, of which %s %.1f; "
                "use more gpus, a larger memory, or a smaller model",
                q->gpus, layout_text(&s->smallest.layout, text, sizeof text),
                (double)x->total_bytes / GIB, room, role_name((enum role)largest), (double)x->bytes[largest] / GIB);
}

static enum status find(struct request *q, struct options *o, const struct cluster *c) {
    struct search s;
    unsigned fixed = 0;
    double start = clock_s();
    static const char *const OURS[] = {"dp", "sp", "schedule", "pp-split", "json"};
    for (size_t i = 0; i < sizeof OURS / sizeof *OURS; i++)
        if (options_source(o, OURS[i]) > FROM_PRESET)
            return FAIL(E_CONFIG, "--%s cannot be given for a search; leave it out, or give a layout without --gpus",
                        OURS[i]);
    for (enum decision d = 0; d < N_DECISIONS; d++)
        if (options_source(o, decision_name(d)) > FROM_PRESET) fixed |= 1u << d;
    TRY(recipe_preset(&q->plan, o));
    TRY(plan_settle_device(&q->plan));
    if (q->plan.vocab == 0) q->plan.vocab = 256;
    enum status status = search_layouts(&train_recipe, &q->plan, fixed, c, q->gpus, true, &s);
    if (status == OK && s.n_best + s.n_families == 0)
        status = FAIL(E_CONFIG,
                      "no layout of gpus=%" PRId64 " can be: they do not divide global-batch=%" PRId64 ", layers="
                      "%" PRId64 " and heads=%" PRId64 "; use a power of two",
                      q->gpus, q->plan.global_batch, q->plan.layers, q->plan.heads);
    if (status == OK) print_search(q, c, &s, clock_s() - start);
    if (status == OK && s.n_best == 0) status = refuse_all(q, c, &s);
    search_fini(&s);
    return status;
}

/* ---- the command ---- */
/* What is planned for is a GPU in bf16, unless the cluster's ranks are cores, or somebody says otherwise. */
static enum status read_request(struct request *q, struct options *o, int argc, char **argv, struct cluster *c) {
    TRY(options_parse(o, argc, argv));
    TRY(cluster_read(q->plan.cluster[0] ? q->plan.cluster : "dgx-a100", c));
    if (c->cores == 0) {
        TRY(options_set(o, "device", "cuda", FROM_PRESET));
        TRY(options_set(o, "precision", "bf16", FROM_PRESET));
    }
    return OK;
}

static enum status plan(struct request *q, struct options *o, int argc, char **argv) {
    struct cluster c;
    struct price x;
    TRY(read_request(q, o, argc, argv, &c));
    if (q->gpus) return find(q, o, &c);
    TRY(setup_plan(o, &q->plan, 0));
    const struct price_wish wish = {.uneven = options_source(o, "pp-split") != FROM_DEFAULT};
    TRY(price_plan(&train_recipe, &q->plan, &c, &wish, &x));
    if (q->json) return print_json(&q->plan, &c, &x);
    print_text(&q->plan, &c, &x);
    return OK;
}

int plan_main(int argc, char **argv) {
    const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct request *q = calloc(1, sizeof *q);
    struct options *o = NULL;
    enum status status = q ? recipe_options_create(&own, q, &o) : FAIL(E_MEMORY, "no memory to start with");
    if (status == OK && options_ask_for_help(argc, argv)) {
        printf("trivium plan [options]\n");
        options_help(o, stdout);
    } else if (status == OK) {
        status = plan(q, o, argc, argv);
    }
    status_report();
    options_destroy(&o);
    free(q);
    return status_exit_code(status);
}
