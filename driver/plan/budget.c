/* trivium budget: the cost of a training run on a cluster you do not have (planner/budget.h). The mfu is the user's, or
 * that of the best layout. With --scale the command prints a curve: the best layout for each doubling of the ranks. */
#include "driver/commands.h"

#include "driver/command.h"
#include "driver/report/report.h"
#include "driver/plan/budget_page.h"
#include "driver/plan/budget_walls.h"
#include "driver/plan/plan_page.h"
#include "driver/plan/plan_search.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "planner/budget.h"
#include "planner/search.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* plan comes first, because the offsets of its options count from it */
struct request {
    struct plan plan;
    int64_t gpus;
    double tokens, mfu, save_stall, restart, interval;
    char scale[OPTION_TEXT_MAX], out[OPTION_TEXT_MAX];
    int weak, walls, json;
    unsigned fixed;              /* decisions that the user made (plan_search_fixed) */
};

#define AT(field) offsetof(struct request, field)
static const struct option OPTIONS[] = {
    {"gpus", OPTION_INT, "0", 0, 1 << 24, NULL, "ranks", "how many work on it", "budget", AT(gpus)},
    {"tokens", OPTION_REAL, "0", 0, 1e18, NULL, "tokens", "to train on; 0: 20 for each parameter", "budget",
     AT(tokens)},
    {"mfu", OPTION_REAL, "0", 0, 1, NULL, "",
     "part of the peak that the model's own flops reach; 0: of the best layout", "budget", AT(mfu)},
    {"save-stall", OPTION_REAL, "5", 0, 1e6, NULL, "s", "that training stands still for a save", "budget",
     AT(save_stall)},
    {"restart", OPTION_REAL, "600", 0, 1e6, NULL, "s", "from a failure to the next step", "budget", AT(restart)},
    {"interval", OPTION_REAL, "0", 0, 1e9, NULL, "s", "of training between saves; 0: Daly's", "budget", AT(interval)},
    {"scale", OPTION_TEXT, "", 0, 0, NULL, "ranks", "N:M: a line for N, 2N, 4N, ... up to M ranks", "budget",
     AT(scale)},
    {"weak", OPTION_BOOL, "off", 0, 0, NULL, "",
     "with scale: global-batch is that of the first line, and grows with ranks", "budget", AT(weak)},
    {"walls", OPTION_BOOL, "off", 0, 0, NULL, "",
     "for models from 1B to 1T and 8, 64, 512, 4096 and 16384 ranks, or those in scale: which resource ends scaling",
     "budget", AT(walls)},
    {"json", OPTION_BOOL, "off", 0, 0, NULL, "", "as JSON", "budget", AT(json)},
    {"out", OPTION_TEXT, "", 0, 0, NULL, "",
     "a directory for budget.html, a page with pictures; with walls: walls.html",
     "budget", AT(out)},
};

static double tokens_of(const struct request *q) {
    return q->tokens > 0 ? q->tokens : 20 * (double)q->plan.arch->n_params(&q->plan);
}
static double flops_of(const struct request *q) { return q->plan.arch->flops_per_token(&q->plan) * tokens_of(q); }

/* ---- a line ---- */
static enum status find_best(const struct request *q, const struct cluster *c, struct budget_line *l) {
    struct search *s = calloc(1, sizeof *s);
    struct plan p = q->plan;
    p.global_batch = l->batch;
    enum status status = s ? search_layouts(&train_recipe, &p, q->fixed, c, l->ranks, true, s)
                           : FAIL(E_MEMORY, "no memory to search");
    l->searched = true;
    l->fits = status == OK && s->n_best > 0;
    if (l->fits) l->best = s->best[0], l->mfu = s->best[0].price.mfu;
    if (s) search_fini(s);
    free(s);
    return status;
}

static enum status make_line(const struct request *q, const struct cluster *c, int64_t ranks, int64_t batch,
                             struct budget_line *l) {
    *l = (struct budget_line){.ranks = ranks, .batch = batch, .fits = true, .mfu = q->mfu};
    if (q->mfu <= 0) TRY(find_best(q, c, l));
    const struct budget_of of = {flops_of(q),  c->flops_per_s[plan_product_dtype(&q->plan)], l->mfu, (double)ranks,
                                 q->save_stall, q->restart, q->interval};
    if (l->fits) l->cost = budget_make(c, &of);
    return OK;
}

/* ---- as text ---- */
static void print_failures(const struct request *q, const struct budget *b) {
    if (!isfinite(b->mtbf_s)) {
        printf("  failures      none: the cluster gives no mtbf-hours\n");
        return;
    }
    printf("  failures      one in %.3g h, %.3g in all; a day has one with a chance of %.3g%%\n", b->mtbf_s / 3600,
           b->failures, 100 * b->failing_day);
    if (isnan(b->interval_s)) printf("  saves         take no time, so the oftener the better\n");
    else
        printf("  saves         every %.0f s, each stops training for %g s (Young %.0f s, Daly %.0f s)\n",
               b->interval_s, q->save_stall, b->young_s, b->daly_s);
    printf("  goodput       %.2f%%: of all time, in steps that count; a restart takes %g s\n", 100 * b->goodput,
           q->restart);
}

/* Seconds per step: of the best layout, or computed from the given mfu. */
static double step_of(const struct request *q, const struct cluster *c, const struct budget_line *l) {
    double flops = q->plan.arch->flops_per_token(&q->plan) * (double)l->batch * (double)q->plan.seq;
    return l->searched ? l->best.price.step_s
                       : flops / ((double)l->ranks * c->flops_per_s[plan_product_dtype(&q->plan)] * l->mfu);
}

static void print_line(const struct request *q, const struct cluster *c, const struct budget_line *l) {
    const struct budget *b = &l->cost;
    char text[192];
    printf("%s, %.4g parameters, %.4g tokens, on %" PRId64 " x %s\n", q->plan.model,
           (double)q->plan.arch->n_params(&q->plan), tokens_of(q), l->ranks, c->name);
    printf("  flops         %.3g: %.3g a token; 6 N would be %.3g\n", flops_of(q),
           q->plan.arch->flops_per_token(&q->plan), 6 * (double)q->plan.arch->n_params(&q->plan));
    printf("  mfu           %.1f%%%s%s\n", 100 * l->mfu, l->searched ? " of the best layout, " : ", as given",
           l->searched ? layout_text(&l->best.layout, text, sizeof text) : "");
    printf("  a step        %.4g s, of a global batch of %" PRId64 " sequences of %" PRId64 " tokens\n",
           step_of(q, c, l), l->batch, q->plan.seq);
    printf("  without loss  %.3g days\n", b->ideal_s / 86400);
    printf("  slowest       x %.4f: each step waits for the slowest machine\n", b->slowest);
    print_failures(q, b);
    printf("  in all        %.3g days, %.4g GPU-hours", b->wall_s / 86400, b->rank_hours);
    if (b->price > 0) printf(", price %.4g", b->price);
    if (b->joules > 0) printf(", energy %.4g MWh", b->joules / 3.6e9);
    printf("\n");
}

static void print_curve_line(const struct request *q, const struct cluster *c, const struct budget_line *l) {
    char text[192];
    if (!l->fits) {
        printf("%8" PRId64 " %8" PRId64 "   nothing fits, or can be\n", l->ranks, l->batch);
        return;
    }
    const struct budget *b = &l->cost;
    printf("%8" PRId64 " %8" PRId64 " %9.4g %6.1f %6.1f %9.4f %8.4f %8.1f %9.3g %11.4g   %s\n", l->ranks, l->batch,
           step_of(q, c, l), 100 * l->mfu, 100 * l->scale_factor, b->slowest, b->goodput,
           100 * budget_mfu_left(l), b->wall_s / 86400, b->rank_hours,
           l->searched ? layout_text(&l->best.layout, text, sizeof text) : "mfu as given");
    fflush(stdout);
}

/* ---- as JSON ---- */
static json_t *line_json(const struct request *q, const struct cluster *c, const struct budget_line *l) {
    const struct budget *b = &l->cost;
    char text[192];
    json_t *o = json_pack("{s:I, s:I, s:b}", "ranks", (json_int_t)l->ranks, "global_batch", (json_int_t)l->batch,
                          "fits", l->fits);
    if (!l->fits) return o;
    const struct { const char *name; double x; } NUMBERS[] = {
        {"mfu", l->mfu}, {"scale_factor", l->scale_factor}, {"step_s", step_of(q, c, l)}, {"ideal_s", b->ideal_s},
        {"slowest", b->slowest}, {"mtbf_s", b->mtbf_s}, {"young_s", b->young_s}, {"daly_s", b->daly_s},
        {"interval_s", b->interval_s}, {"goodput", b->goodput}, {"wall_s", b->wall_s}, {"failures", b->failures},
        {"failing_day", b->failing_day}, {"gpu_hours", b->rank_hours}, {"price", b->price}, {"joules", b->joules}};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        json_object_set_new(o, NUMBERS[i].name, report_number(NUMBERS[i].x));
    if (!l->searched) return o;
    json_object_set_new(o, "layout", json_string(layout_text(&l->best.layout, text, sizeof text)));
    json_object_set_new(o, "phases_s", plan_phases_json(&l->best.price));
    return o;
}

static json_t *budget_json(const struct request *q, const struct cluster *c, json_t *lines) {
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:O}", "model", q->plan.model, "cluster", c->name, "parameters",
                     (json_int_t)q->plan.arch->n_params(&q->plan), "tokens", tokens_of(q), "flops", flops_of(q),
                     "lines", lines);
}

/* ---- all lines ---- */
static enum status read_scale(const struct request *q, int64_t *from, int64_t *to) {
    int used = 0;
    *from = *to = q->gpus;
    if (!q->scale[0] && q->gpus > 0) return OK;
    if (!q->scale[0]) return FAIL(E_USAGE, "how many ranks? give --gpus 1024, or --scale 64:16384");
    if (sscanf(q->scale, "%" SCNd64 ":%" SCNd64 "%n", from, to, &used) == 2 && !q->scale[used] && *from >= 1 &&
        *to >= *from && *to <= 1 << 24)
        return OK;
    return FAIL(E_USAGE, "scale=%s is not N:M, two numbers of ranks, the first the smaller; use 64:16384", q->scale);
}

static int64_t batch_of(const struct request *q, bool weak, int64_t ranks, int64_t from) {
    return weak ? q->plan.global_batch * (ranks / from) : q->plan.global_batch;
}

static enum status tell_line(const struct request *q, const struct cluster *c, const struct budget_line *l,
                             json_t *lines) {
    json_array_append_new(lines, line_json(q, c, l));
    if (q->json) return OK;
    if (q->scale[0]) print_curve_line(q, c, l);
    else if (!l->fits)
        return FAIL(E_CONFIG,
                    "no layout of gpus=%" PRId64 " fits; `trivium plan` says what is missing; or give --mfu", l->ranks);
    else print_line(q, c, l);
    return OK;
}

static enum status each_line(const struct request *q, const struct cluster *c, json_t *lines,
                             struct budget_curve *curve) {
    int64_t from, to;
    double first = 0;                                                /* mfu of the first line that fits */
    struct budget_line l;
    TRY(read_scale(q, &from, &to));
    if (!q->json && q->scale[0])
        printf("%s, %.4g parameters, %.4g tokens, on %s\n%8s %8s %9s %6s %6s %9s %8s %8s %9s %11s   %s\n",
               q->plan.model, (double)q->plan.arch->n_params(&q->plan), tokens_of(q), c->name, "ranks", "batch",
               "step s", "mfu", "scale", "slowest", "goodput", "mfu left", "days", "GPU-hours", "layout");
    for (int64_t n = from; n <= to; n *= 2) {
        TRY(make_line(q, c, n, batch_of(q, q->weak, n, from), &l));
        if (l.fits && !first) first = l.mfu;
        l.scale_factor = l.mfu / first;
        TRY(tell_line(q, c, &l, lines));
        budget_curve_add(curve, &l);
    }
    return OK;
}

/* ---- pictures: the printed curve, and the curve with the other batch rule, which has the same first line ---- */
static enum status other_curve(const struct request *q, const struct cluster *c, const struct budget_line *first,
                               struct budget_curve *curve) {
    int64_t from, to;
    struct budget_line l = *first;
    TRY(read_scale(q, &from, &to));
    for (int64_t n = from; n <= to; n *= 2) {
        if (n > from) TRY(make_line(q, c, n, batch_of(q, !q->weak, n, from), &l));
        budget_curve_add(curve, &l);
    }
    return OK;
}

static enum status write_page(const struct request *q, const struct cluster *c, json_t *lines,
                              const struct budget_curve curves[2]) {
    const struct budget_page page = {&q->plan, c, curves, q->save_stall, q->restart};
    return report_write(q->out, "budget", json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", "budget", "budget",
                                                    budget_json(q, c, lines), "parts", plan_part_names(), "curves",
                                                    budget_curves_json(&page), "goodput", budget_goodput_json(&page)),
                        JSON_COMPACT);
}

static enum status make_lines(const struct request *q, const struct cluster *c, json_t *lines) {
    struct budget_curve curves[2] = {{0}};                           /* constant batch; batch that grows with ranks */
    if (q->out[0]) TRY(report_prepare(q->out));
    enum status status = each_line(q, c, lines, &curves[q->weak]);
    if (status == OK && q->out[0] && q->scale[0])
        status = other_curve(q, c, &curves[q->weak].line[0], &curves[!q->weak]);
    if (status == OK && q->out[0]) status = write_page(q, c, lines, curves);
    if (status == OK && q->out[0] && !q->json) report_pictures(q->out, "budget");
    for (int i = 0; i < 2; i++) budget_curve_fini(&curves[i]);
    return status;
}

static const char *first_given(unsigned fixed) {
    enum decision d = 0;
    while (!(fixed >> d & 1)) d++;
    return decision_name(d);
}

/* ---- walls ---- */
static void print_wall_row(const struct walls *w, int row) {
    walls_print_row(stdout, w, row);
    fflush(stdout);
}

static enum status show_walls(const struct request *q, const struct options *o, const struct cluster *c) {
    static const char *const OURS[] = {"model", "gpus", "global-batch", "layers", "hidden", "heads", "tokens"};
    static struct walls w;
    unsigned fixed;
    TRY(plan_search_fixed(o, &q->plan, &fixed));
    if (fixed) return FAIL(E_USAGE, "--walls searches each layout; leave out --%s", first_given(fixed));
    const struct walls_of of = {q->save_stall, q->restart, q->interval};
    for (size_t i = 0; i < sizeof OURS / sizeof *OURS; i++)
        if (options_source(o, OURS[i]) > FROM_PRESET)
            return FAIL(E_USAGE, "--walls has models, batches and numbers of ranks of its own; leave out --%s",
                        OURS[i]);
    int64_t from = 1, to = INT64_MAX;
    if (q->scale[0]) TRY(read_scale(q, &from, &to));
    TRY(walls_choose_sizes(from, to, &w));
    if (q->out[0]) TRY(report_prepare(q->out));
    if (!q->json) walls_print_head(stdout, &w);
    TRY(walls_make(&q->plan, c, &of, q->json ? NULL : print_wall_row, &w));
    if (q->json) TRY(command_print(walls_json(&w), JSON_INDENT(2)));
    if (q->out[0]) TRY(report_write(q->out, "walls", walls_page_json(c, &w), JSON_COMPACT));
    if (q->out[0] && !q->json) report_pictures(q->out, "walls");
    return OK;
}

static enum status budget(void *request, struct options *o, int argc, char **argv) {
    struct request *q = request;
    struct cluster c;
    TRY(options_parse(o, argc, argv));
    TRY(setup_target(o, &q->plan, &c));
    if (q->walls) TRY(options_set(o, "schedule", "zb-h1", FROM_PRESET));           /* for fewer layouts */
    TRY(setup_preset(o, &q->plan, false));
    TRY(plan_search_is_of_one_training(&q->plan));
    TRY(plan_settle_device(&q->plan));
    if (q->plan.vocab == 0) q->plan.vocab = 256;
    if (!(c.flops_per_s[plan_product_dtype(&q->plan)] > 0))
        return FAIL(E_CONFIG, "%s has no peak in %s; give its tflops, or another precision", c.name,
                    dtype_name(plan_product_dtype(&q->plan)));
    if (q->walls) return show_walls(q, o, &c);
    if (q->weak && !q->scale[0])
        return FAIL(E_USAGE, "--weak is of a curve; give --scale 64:16384, too, or leave --weak out");
    if (options_source(o, "global-batch") == FROM_DEFAULT)
        return FAIL(E_USAGE, "a step of how many sequences? give --global-batch 1536");
    TRY(plan_search_fixed(o, &q->plan, &q->fixed));
    if (q->mfu > 0 && q->fixed)
        return FAIL(E_USAGE, "--mfu is of a layout that is known, and --%s is for a search of one; leave one out",
                    first_given(q->fixed));
    json_t *lines = json_array();
    enum status status = lines ? make_lines(q, &c, lines) : FAIL(E_MEMORY, "no memory for a budget");
    if (status == OK && q->json)
        status = command_print(json_pack("{s:o}", "budget", budget_json(q, &c, lines)), JSON_INDENT(2));
    json_decref(lines);
    return status;
}

int budget_main(int argc, char **argv) {
    static const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    static const struct command_alone c = {"trivium budget [options]\n", &own, 1, true, sizeof(struct request), budget};
    return command_main(&c, argc, argv);
}
