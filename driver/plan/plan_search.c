/* trivium plan --gpus: the search, its answer as text and as JSON, and the start of a run with the best layout. */
#include "driver/plan/plan_search.h"

#include "driver/command.h"
#include "driver/report/report.h"
#include "driver/plan/plan_tables.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/clock.h"
#include "lib/base/configs.h"
#include "lib/base/integer.h"
#include "lib/base/output.h"
#include "lib/base/replace.h"
#include "lib/base/say.h"
#include "lib/ops/attention/attention.h"
#include "planner/choose.h"
#include "planner/explain.h"
#include "planner/search.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIB 1073741824.0

struct answer {
    const struct plan_request *asked;
    struct options *options;
    const struct cluster *cluster;
    unsigned fixed;
    struct search found;
    struct plan_dots dots;               /* for the pictures */
    const struct found *fastest;
    int tied;
    struct tipping tipping[N_ASSUMPTIONS];
    double seconds;
};

/* ---- the command of a layout ---- */
struct typed { FILE *out; const char *before, *between, *after; };

/* Write an option that the user gave, unless the layout sets it or it is plan's own. */
static void write_given(void *self, const struct option *o, const char *value, enum option_source source) {
    const struct typed *t = self;
    if (source < FROM_PRESET || !strcmp(o->group, "plan") || !strcmp(o->name, "cluster")) return;
    for (enum decision d = 0; d <= N_DECISIONS; d++)
        if (!strcmp(o->name, decision_name(d))) return;
    if (source == FROM_PRESET && strcmp(o->name, "device") && strcmp(o->name, "precision")) return;
    if (!strcmp(o->name, "pp-split") || !strcmp(o->name, "dp") || *value == 0) return;
    fprintf(t->out, "%s%s%s%s%s", t->before, o->name, t->between, value, t->after);
}

static void write_command(FILE *f, const struct answer *a, const struct layout *l) {
    char text[256];
    struct typed typed = {f, " --", " ", ""};
    layout_options(l, text, sizeof text);
    if (*a->cluster->stack.name) {
        stack_write_command(&a->cluster->stack, a->options, a->asked->plan.arch->name, text, f);
    } else {
        fprintf(f, "  mpirun -n %" PRId64 " %s train", a->asked->gpus, configs_program());
        options_each(a->options, write_given, &typed);
        fprintf(f, " %s\n", text);
    }
}

/* "--tp 4 --sp on" as lines of an ini file. */
static void write_layout(FILE *out, const struct layout *l) {
    char text[256], *word;
    layout_options(l, text, sizeof text);
    for (word = strtok(text, " "); word; word = strtok(NULL, " "))
        if (!strncmp(word, "--", 2)) fprintf(out, "%s = ", word + 2);
        else fprintf(out, "%s\n", word);
}

static enum status write_ini(const struct answer *a, const struct layout *l, const char *path) {
    FILE *out = replace_begin(path);
    if (!out) return FAIL(E_IO, "cannot write %s: %s", path, output_why(errno));
    struct typed typed = {out, "", " = ", "\n"};
    fprintf(out, "# chosen by trivium plan for %" PRId64 " x %s\n", a->asked->gpus, a->cluster->name);
    options_each(a->options, write_given, &typed);
    write_layout(out, l);
    return replace_end(path, out, true) ? OK : FAIL(E_IO, "cannot write all of %s", path);
}

/* ---- as text ---- */
static void print_family(const struct answer *a, const struct family *f) {
    char text[192], room[32];
    const struct price *best = &a->fastest->price;
    printf("  %-11s %-10s", decision_name(f->decision), choice_text(f->decision, f->choice));
    if (!f->fits) {
        printf("does not fit: %s", bytes_text((double)f->best.price.total_bytes, room));
    } else if (f->best.price.step_s <= best->step_s) {
        printf("is the fastest's\n");
        return;
    } else {
        printf("+%.1f%%  ", 100 * (f->best.price.step_s / best->step_s - 1));
        plan_write_differences(stdout, &f->best.price, best);
    }
    printf("   [%s]\n", layout_text(&f->best.layout, text, sizeof text));
}

static void print_tipping(const struct answer *a, enum assumption what) {
    const struct tipping *t = &a->tipping[what];
    char text[192];
    printf("  %-37s ", plan_assumption_name(what));
    plan_write_now(stdout, what, t);
    printf("   "), plan_write_tipping(stdout, what, t);
    if (t->beyond != 0) printf(": %s", layout_text(&t->other, text, sizeof text));
    printf("\n");
}

static int shown_of(const struct answer *a) { return (int)min64(a->found.n_best, a->asked->top); }

static void print_list(const struct answer *a) {
    char text[192], room[32];
    const struct search *s = &a->found;
    for (int i = 0; i < shown_of(a); i++) {
        const struct price *x = &s->best[i].price;
        printf("%9.4g s  mfu %4.1f%%  %9s  %s%s\n", x->step_s, 100 * x->mfu, bytes_text((double)x->total_bytes, room),
               layout_text(&s->best[i].layout, text, sizeof text), i < a->tied ? "  =" : "");
        plan_print_phases(x);
    }
    if (!s->n_best) return;
    printf("  seconds: products, memory: rows bound by arithmetic, by the memory's bandwidth; replay: rows that\n"
           "  backward runs again, also what sp gathers again; tp, cp, ep: exchanges in rows; dp: sums of gradients;\n"
           "  gather: of sharded weights; optim: the update, with what is summed at the end; offload: to the host and\n"
           "  back, and its update; of exchanges only what nothing hides. bubble, pp: waits for other stages, and\n"
           "  their messages\n  ");
    plan_write_ties(stdout, a->tied, shown_of(a));
    printf("\n");
}

static void print_text(const struct answer *a) {
    const struct search *s = &a->found;
    const struct search_stat *n = &s->stat;
    char text[192];
    measured_print(&a->asked->figures, stdout);
    printf("%s on %" PRId64 " x %s%s%s, global batch %" PRId64 "\n", setup_name(&a->asked->plan), a->asked->gpus,
           a->cluster->name, *a->cluster->stack.name ? ", " : "", a->cluster->stack.name, a->asked->plan.global_batch);
    printf("%" PRId64 " layouts: %" PRId64 " cannot be, %" PRId64 " do not fit, %" PRId64 " are cut by a bound, "
           "%" PRId64 " timed; %.2f s\n\n",
           n->seen, n->refused, n->too_large + n->no_fit, n->bound, n->priced - n->no_fit, a->seconds);
    print_list(a);
    if (s->n_best) {
        printf("\nthe first of these:\n");
        write_command(stdout, a, &s->best[0].layout);
        printf("\nwhat the fastest, %s, rests on, and what would win otherwise\n",
               layout_text(&a->fastest->layout, text, sizeof text));
        for (enum assumption i = 0; i < N_ASSUMPTIONS; i++) print_tipping(a, i);
    }
    printf("%s\n%s%s\n",
           s->n_best ? "\nwhy others lose: the best with each choice against the fastest of all, and the largest "
                       "differences of its time;"
                     : "nothing fits; with each choice a layout of little memory, and what it takes;",
           "block:N and uneven stages are tried for the list alone",
           a->asked->plan.seq < 16384 && !(a->fixed >> DECIDE_CP & 1) ? ", cp only for sequences of 16384 and more"
                                                                      : "");
    for (int i = 0; i < s->n_families; i++)
        if (plan_family_is_open(s, i)) print_family(a, &s->families[i]);
}

/* ---- as JSON ---- */
static json_t *found_json(const struct found *f, bool tied) {
    char text[192], options[256];
    return json_pack("{s:s, s:s, s:f, s:f, s:I, s:b, s:b, s:o, s:o}", "layout",
                     layout_text(&f->layout, text, sizeof text), "options",
                     layout_options(&f->layout, options, sizeof options), "step_s", f->price.step_s, "mfu",
                     f->price.mfu, "memory_bytes", (json_int_t)f->price.total_bytes, "fits", f->price.fits, "tied",
                     tied, "phases_s", plan_phases_json(&f->price), "bytes", plan_bytes_json(&f->price));
}

static json_t *search_json(const struct answer *a) {
    const struct search *s = &a->found;
    json_t *best = json_array(), *families = json_array(), *tipping = json_object();
    static const char *const NAMES[N_ASSUMPTIONS] = {"wire_bytes_per_s", "product_part", "reserve_bytes"};
    char text[192];
    for (int i = 0; i < shown_of(a); i++) json_array_append_new(best, found_json(&s->best[i], i < a->tied));
    for (int i = 0; i < s->n_families; i++) {
        const struct family *f = &s->families[i];
        json_array_append_new(families, json_pack("{s:s, s:s, s:o}", "decision", decision_name(f->decision), "choice",
                                                  choice_text(f->decision, f->choice), "best",
                                                  found_json(&f->best, false)));
    }
    for (int i = 0; i < N_ASSUMPTIONS; i++) {
        const struct tipping *t = &a->tipping[i];
        json_object_set_new(tipping, NAMES[i],
                            json_pack("{s:f, s:f, s:s}", "now", t->now, "beyond", t->beyond, "layout",
                                      t->beyond == 0 ? "" : layout_text(&t->other, text, sizeof text)));
    }
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:o}", "cluster",
                     a->cluster->name, "model", a->asked->plan.model, "ranks", (json_int_t)a->asked->gpus,
                     "best", best, "families", families, "tipping", tipping, "stat", "seen",
                     (json_int_t)s->stat.seen, "refused", (json_int_t)s->stat.refused, "too_large",
                     (json_int_t)s->stat.too_large, "bound", (json_int_t)s->stat.bound, "priced",
                     (json_int_t)s->stat.priced, "no_fit", (json_int_t)s->stat.no_fit, "measured",
                     measured_json(&a->asked->figures));
}

/* ---- the search ---- */
/* Report that no layout fits: the smallest layout, its largest role, and a remedy. */
static enum status refuse_all(const struct answer *a) {
    const struct found *f = &a->found.smallest;
    const struct cluster *c = a->cluster;
    char text[192];
    int largest = 0;
    for (int i = 1; i < N_ROLES; i++)
        if (f->price.bytes[i] > f->price.bytes[largest]) largest = i;
    return FAIL(E_CONFIG, "no layout of gpus=%" PRId64 " fits: the smallest, %s, takes %.3g GiB of %.3g, of which %s "
                "%.3g; use more gpus, %s, or a smaller model",
                a->asked->gpus, layout_text(&f->layout, text, sizeof text), (double)f->price.total_bytes / GIB,
                (double)(c->memory_bytes - c->reserve_bytes) / GIB, role_name((enum role)largest),
                (double)f->price.bytes[largest] / GIB,
                a->asked->plan.memory_limit > 0 ? "a larger memory-limit" : "a larger memory");
}

static bool rounds_weights(const struct plan *p) { return plan_number(p, "weight-codec") != CODEC_NONE; }

/* If a codec or wide heads make every layout impossible, report the error of plain data parallelism, the simplest. */
static enum status refuse_plain(const struct plan_request *q, unsigned fixed) {
    struct plan p = q->plan;
    struct run r = {0};
    p.mesh.dp = q->gpus / plan_replica_ranks(&p);
    if (p.micro_batch == PLAN_AUTO) p.micro_batch = 0;
    if (rounds_weights(&p) && !(fixed >> DECIDE_ZERO & 1)) plan_set_number(&p, "zero", 3);
    TRY(plan_settle_device(&p));
    TRY(plan_check_codec(&p));                                       /* before plan_settle checks the batch */
    TRY(plan_settle(&p, 0));
    enum status status = run_compile(&r, &train_recipe, &p, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

static enum status refuse_number(const struct plan_request *q, unsigned fixed) {
    const struct plan *p = &q->plan;
    bool wide = p->heads > 0 && plan_head_dim(p) > ATTENTION_CUDA_MAX_D;
    if (grad_options(p)->codec != CODEC_NONE || rounds_weights(p) || wide) TRY(refuse_plain(q, fixed));
    return FAIL(E_CONFIG, "no layout of gpus=%" PRId64 " can be: dp, tp, pp and the like must divide them, and "
                "global-batch=%" PRId64 ", layers=%" PRId64 ", heads=%" PRId64 " and kv-heads=%" PRId64 "; use %s",
                q->gpus, p->global_batch, p->layers, p->heads, plan_kv_heads(p),
                fixed ? "fewer options, as one that is given cannot be" : "a power of two");
}

static enum status find(struct answer *a) {
    const struct plan *p = &a->asked->plan;
    struct search *s = &a->found;
    TRY(search_layouts_telling(&train_recipe, p, a->fixed, a->cluster, a->asked->gpus, true,
                               a->asked->out[0] ? plan_dots_take : NULL, &a->dots, s));
    if (s->n_best + s->n_families == 0) return refuse_number(a->asked, a->fixed);
    for (int i = 0; i < shown_of(a); i++)
        TRY(choose_refine(&train_recipe, p, a->fixed, !*a->cluster->stack.name, a->cluster, &s->best[i]));
    a->tied = explain_order(s);
    int fastest = 0, last = shown_of(a) - 1;
    for (int i = 1; i < s->n_best; i++)
        if (s->best[i].price.step_s < s->best[fastest].price.step_s) fastest = i;
    if (last > 0 && last < fastest) {                    /* of ties, the fastest is among those that are shown */
        const struct found moved = s->best[fastest];
        s->best[fastest] = s->best[last], s->best[last] = moved, fastest = last;
    }
    a->fastest = s->n_best ? &s->best[fastest] : NULL;
    return explain_tipping(&train_recipe, p, a->fixed, a->cluster, s, a->tipping);
}

/* ---- pictures ---- */
static enum status draw_with(struct answer *a, const char *command) {
    struct search *s = &a->found;
    const struct plan_page page = {
        .asked = &a->asked->plan, .fixed = a->fixed, .cluster = a->cluster, .ranks = a->asked->gpus, .search = s,
        .n_shown = shown_of(a), .n_tied = a->tied, .fastest = a->fastest, .tipping = a->tipping, .dots = &a->dots,
        .command = command};
    for (int i = 0; i < s->n_best; i++) plan_dots_put(&a->dots, &s->best[i]);
    json_t *json;
    TRY(plan_dots_price_the_rest(&a->dots, &train_recipe, page.asked, a->fixed, a->cluster));
    TRY(plan_page_json(&page, &json));
    json_object_set_new(json, "search", search_json(a));
    return report_write(a->asked->out, "plan", json, JSON_COMPACT);
}

static enum status draw(struct answer *a) {
    char *command = NULL;
    size_t bytes;
    FILE *f = open_memstream(&command, &bytes);
    if (!f) return FAIL(E_MEMORY, "no memory for a command");
    if (a->found.n_best) write_command(f, a, &a->found.best[0].layout);
    enum status status = fclose(f) ? FAIL(E_MEMORY, "no memory for a command") : draw_with(a, command);
    free(command);
    return status;
}

static enum status start(const struct plan_request *q, const char *path) {
    char ranks[24], self[OPTION_TEXT_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return FAIL(E_IO, "cannot find this program to start it");
    self[n] = 0;
    snprintf(ranks, sizeof ranks, "%" PRId64, q->gpus);
    fflush(stdout);
    execl(self, self, "launch", "-n", ranks, "train", "--config", path, (char *)NULL);
    return FAIL(E_IO, "cannot start %s launch", self);
}

static enum status answer(struct answer *a) {
    const struct plan_request *q = a->asked;
    double started = clock_s();
    if (q->out[0]) TRY(report_prepare(q->out));
    TRY(find(a));
    a->seconds = clock_s() - started;
    if (q->json) TRY(command_print(json_pack("{s:o}", "search", search_json(a)), JSON_INDENT(2)));
    else print_text(a);
    if (q->out[0]) TRY(draw(a));
    if (q->out[0] && !q->json) printf("\n"), report_pictures(q->out, "plan");
    if (a->found.n_best == 0) return refuse_all(a);
    const char *path = q->write[0] ? q->write : "plan.ini";
    if (q->write[0] || q->run) TRY(write_ini(a, &a->found.best[0].layout, path));
    return q->run ? start(q, path) : OK;
}

enum status plan_search_is_of_one_training(const struct plan *p) {
    const int64_t steps = plan_number(p, "local-steps");
    if (steps == 0) return OK;
    return FAIL(E_CONFIG, "local-steps=%" PRId64 " trains otherwise for every dp, and a search compares layouts that "
                          "train alike; give plan a layout without --gpus, or leave local-steps out", steps);
}

enum status plan_search_fixed(const struct options *o, const struct plan *p, unsigned *fixed) {
    static const char *const OURS[] = {"dp", "sp", "schedule", "pp-split"};
    *fixed = 0;
    for (size_t i = 0; i < sizeof OURS / sizeof *OURS; i++)
        if (options_source(o, OURS[i]) > FROM_PRESET)
            return FAIL(E_CONFIG, "--%s cannot be given for a search; leave it out, or give trivium plan a layout "
                                  "without --gpus", OURS[i]);
    for (enum decision d = 0; d < N_DECISIONS; d++)
        if (options_source(o, decision_name(d)) > FROM_PRESET) *fixed |= 1u << d;
    if (p->micro_batch == PLAN_AUTO) *fixed &= ~(1u << DECIDE_MICRO);              /* auto: the search decides */
    if (plan_has_word(p, "recompute", "auto")) *fixed &= ~(1u << DECIDE_RECOMPUTE);
    return OK;
}

enum status plan_search(struct plan_request *q, struct options *o, const struct cluster *c) {
    struct answer *a = calloc(1, sizeof *a);
    if (!a) return FAIL(E_MEMORY, "no memory to search");
    *a = (struct answer){.asked = q, .options = o, .cluster = c};
    plan_dots_init(&a->dots);
    enum status status = setup_preset(o, &q->plan, false);
    if (status == OK) status = plan_search_fixed(o, &q->plan, &a->fixed);
    if (status == OK) status = plan_search_is_of_one_training(&q->plan);
    if (status == OK) status = plan_settle_device(&q->plan);
    if (q->plan.vocab == 0) q->plan.vocab = 256;
    if (status == OK && q->against[0]) {
        measured_print(&q->figures, stdout);
        status = versus_print(&train_recipe, &q->plan, a->fixed, c, q->against, q->gpus, stdout);
    } else if (status == OK) status = answer(a);
    search_fini(&a->found);
    plan_dots_fini(&a->dots);
    free(a);
    return status;
}
