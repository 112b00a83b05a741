#include "driver/plan/budget_pictures.h"

#include "driver/chart/chart.h"
#include "driver/chart/page.h"
#include "planner/why.h"
#include "lib/base/grow.h"
#include "planner/failure.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { N_CURVES = 2, NAME_BYTES = 256, HINT_BYTES = 160 };
static const char *const CURVES[N_CURVES] = {"batch stays", "batch grows"};

void budget_curve_add(struct budget_curve *c, const struct budget_line *l) {
    c->line = table_grow(c->line, c->n, sizeof *c->line);
    c->line[c->n++] = *l;
}
void budget_curve_fini(struct budget_curve *c) {
    free(c->line);
    *c = (struct budget_curve){0};
}

double budget_mfu_left(const struct budget_line *l) { return l->mfu / l->cost.slowest * l->cost.goodput; }

static const struct budget_curve *longest(const struct budget_page *p) {
    return p->curve[0].n >= p->curve[1].n ? &p->curve[0] : &p->curve[1];
}

static void plan_parts_series(struct chart_series out[N_PARTS]) {
    static const enum chart_colour COLOURS[N_PARTS] = {CHART_BLUE, CHART_SKY,    CHART_ORANGE, CHART_VERMILION,
                                                       CHART_PALE, CHART_PURPLE, CHART_GREEN,  CHART_GREY};
    for (int i = 0; i < N_PARTS; i++) out[i] = (struct chart_series){part_name((enum part)i), COLOURS[i]};
}

/* ---- shares of a step ---- */
static void add_bar(const struct budget_line *l, const char *label, struct chart_group *g) {
    struct chart_bar *bar = &g->bar[g->n_bars++];
    bar->label = label;
    part_seconds(l->best.price.phase_s, l->best.price.step_s, bar->value);
    for (int i = 0; i < N_PARTS; i++) bar->value[i] = fmax(0, 100 * bar->value[i] / l->best.price.step_s);
}

/* A group is a number of ranks; its name says the batches and the steps. */
static void fill_group(const struct budget_page *p, int i, char *name, struct chart_group *g) {
    int used = snprintf(name, NAME_BYTES, "%" PRId64 " ranks", longest(p)->line[i].ranks);
    *g = (struct chart_group){.name = name};
    for (int k = 0; k < N_CURVES; k++) {
        const struct budget_line *l = i < p->curve[k].n ? &p->curve[k].line[i] : NULL;
        if (!l || !l->fits || !l->searched) continue;
        add_bar(l, CURVES[k], g);
        if (used < NAME_BYTES)
            used += snprintf(name + used, (size_t)(NAME_BYTES - used), "%s batch %" PRId64 " in %.3g s",
                             g->n_bars > 1 ? ", and" : ":", l->batch, l->best.price.step_s);
    }
    if (!g->n_bars) g->reason = "nothing fits, or can be";
}

static bool is_searched(const struct budget_page *p) {
    for (int k = 0; k < N_CURVES; k++)
        for (int i = 0; i < p->curve[k].n; i++)
            if (p->curve[k].line[i].searched) return true;
    return false;
}

enum status budget_picture_shares(const struct budget_page *p, FILE *f) {
    int n = longest(p)->n;
    struct chart_series series[N_PARTS];
    if (!is_searched(p)) return OK;
    struct chart_group *groups = calloc((size_t)n, sizeof *groups);
    char (*names)[NAME_BYTES] = calloc((size_t)n, sizeof *names);
    enum status status = groups && names ? OK : FAIL(E_MEMORY, "no memory for a picture of %d sizes", n);
    plan_parts_series(series);
    for (int i = 0; status == OK && i < n; i++) fill_group(p, i, names[i], &groups[i]);
    if (status == OK)
        chart_bars_svg(&(struct chart_bars){"Where a step goes, by the number of ranks", "% of the step", series,
                                            N_PARTS, groups, n}, f);
    free(groups);
    free(names);
    return status;
}

/* ---- mfu ---- */
struct dots { int n; struct chart_point *point; char (*hint)[HINT_BYTES]; };

static void add_dot(struct dots *d, const struct budget_line *l, double part, const char *what) {
    char number[CHART_NUMBER_BYTES];
    snprintf(d->hint[d->n], HINT_BYTES, "%" PRId64 " ranks, batch %" PRId64 ": %s %s%%", l->ranks, l->batch, what,
             chart_number(100 * part, number));
    d->point[d->n] = (struct chart_point){(double)l->ranks, 100 * part, d->hint[d->n]};
    d->n++;
}

static void fill_mfu(const struct budget_page *p, struct dots *d, struct chart_set sets[2 * N_CURVES]) {
    static const char *const NAMES[] = {"mfu, batch stays", "what is left of it", "mfu, batch grows",
                                        "what is left of it"};
    static const enum chart_colour COLOURS[] = {CHART_SKY, CHART_BLUE, CHART_ORANGE, CHART_VERMILION};
    for (int k = 0; k < 2 * N_CURVES; k++) {
        const struct budget_curve *c = &p->curve[k / 2];
        sets[k] = (struct chart_set){NAMES[k], COLOURS[k], CHART_LINE, &d->point[d->n], 0};
        for (int i = 0; i < c->n; i++) {
            if (!c->line[i].fits) continue;
            add_dot(d, &c->line[i], k % 2 ? budget_mfu_left(&c->line[i]) : c->line[i].mfu, k % 2 ? "left" : "mfu");
            sets[k].n++;
        }
    }
}

enum status budget_picture_mfu(const struct budget_page *p, FILE *f) {
    size_t most = (size_t)(2 * (p->curve[0].n + p->curve[1].n)) + 1;
    struct dots d = {0, calloc(most, sizeof *d.point), calloc(most, sizeof *d.hint)};
    struct chart_set sets[2 * N_CURVES];
    enum status status = d.point && d.hint ? OK : FAIL(E_MEMORY, "no memory for a picture of %zu dots", most);
    if (status == OK) fill_mfu(p, &d, sets);
    if (status == OK && d.n)
        chart_plot_svg(&(struct chart_plot){"mfu by the number of ranks", "ranks", "% of the peak", CHART_DOUBLING,
                                            CHART_LINEAR, 0, 0, sets, 2 * N_CURVES, NAN, NULL}, f);
    free(d.point);
    free(d.hint);
    return status;
}

/* ---- goodput ---- */
enum { MOST_LINES = 5, N_STEPS = 81 };
struct goodput_sets {
    int n;
    struct chart_set set[MOST_LINES + 2];
    char name[MOST_LINES][32], hint[2 * MOST_LINES][HINT_BYTES];
    struct chart_point line[MOST_LINES][N_STEPS], young[MOST_LINES], daly[MOST_LINES];
};

static double lost(const struct budget_page *p, const struct budget *b, double interval_s) {
    return 100 * (1 - failure_goodput(interval_s, p->stall_s, b->mtbf_s, p->restart_s));
}

static struct chart_point mark_of(const struct budget_page *p, const struct budget_line *l, double interval_s,
                                  const char *whose, char *hint) {
    double part = lost(p, &l->cost, interval_s);
    snprintf(hint, HINT_BYTES, "%" PRId64 " ranks, %s: every %.0f s, goodput %.2f%%", l->ranks, whose, interval_s,
             100 - part);
    return (struct chart_point){interval_s, part, hint};
}

/* From a tenth of the shortest of Young's intervals to ten times the longest. */
static void add_goodput_line(const struct budget_page *p, const struct budget_line *l, double from, double to,
                             struct goodput_sets *s) {
    static const enum chart_colour COLOURS[MOST_LINES] = {CHART_BLUE, CHART_GREEN, CHART_ORANGE, CHART_PURPLE,
                                                          CHART_VERMILION};
    int i = s->n++;
    snprintf(s->name[i], sizeof s->name[i], "%" PRId64 " ranks", l->ranks);
    s->set[i] = (struct chart_set){s->name[i], COLOURS[i], CHART_LINE, s->line[i], N_STEPS};
    for (int k = 0; k < N_STEPS; k++) {
        double interval_s = from * pow(to / from, (double)k / (N_STEPS - 1));
        s->line[i][k] = (struct chart_point){interval_s, lost(p, &l->cost, interval_s), NULL};
    }
    s->young[i] = mark_of(p, l, l->cost.young_s, "Young", s->hint[2 * i]);
    s->daly[i] = mark_of(p, l, l->cost.daly_s, "Daly", s->hint[2 * i + 1]);
}

/* The i-th of n, evenly over a curve of many. */
static const struct budget_line *line_at(const struct budget_curve *c, int i, int n) {
    return &c->line[n == 1 ? 0 : i * (c->n - 1) / (n - 1)];
}

enum status budget_picture_goodput(const struct budget_page *p, FILE *f) {
    const struct budget_curve *c = longest(p);
    struct goodput_sets *s = calloc(1, sizeof *s);
    if (!s) return FAIL(E_MEMORY, "no memory for a picture");
    double from = INFINITY, to = 0;
    int n = c->n < MOST_LINES ? c->n : MOST_LINES;
    for (int i = 0; i < n; i++) {
        from = fmin(from, line_at(c, i, n)->cost.young_s / 10);
        to = fmax(to, line_at(c, i, n)->cost.young_s * 10);
    }
    for (int i = 0; i < n; i++)
        if (line_at(c, i, n)->cost.young_s > 0) add_goodput_line(p, line_at(c, i, n), from, to, s);
    s->set[s->n] = (struct chart_set){"Young's interval", CHART_PALE, CHART_RIMMED, s->young, s->n};
    s->set[s->n + 1] = (struct chart_set){"Daly's", CHART_SKY, CHART_DOT, s->daly, s->n};
    if (s->n)
        chart_plot_svg(&(struct chart_plot){"Time lost to failures and saves", "s of training between saves",
                                            "% of the time: 100 - goodput", CHART_LOG, CHART_LOG, 0, 100, s->set,
                                            s->n + 2, NAN, NULL}, f);
    free(s);
    return OK;
}

/* ---- the page ---- */
static enum status draw_shares(const void *self, FILE *f) { return budget_picture_shares(self, f); }
static enum status draw_mfu(const void *self, FILE *f) { return budget_picture_mfu(self, f); }
static enum status draw_goodput(const void *self, FILE *f) { return budget_picture_goodput(self, f); }

static const struct page_picture PICTURES[] = {
    {"shares", "Where a step goes",
     "The best layout at each number of ranks. A fixed batch is strong scaling: every rank has less to do. A batch "
     "that grows with ranks is weak scaling. Parts are those of the busiest stage.",
     draw_shares},
    {"mfu", "mfu, and what is left of it",
     "Left is what counts in the end: mfu x goodput, divided by how much longer a step is for the slowest machine.",
     draw_mfu},
    {"goodput", "How often to save",
     "Saves stop training, and a failure undoes the steps since the last one: between the two lies the interval that "
     "loses least. Young's and Daly's formulas find it; they differ where a save takes long compared with the time "
     "between failures. Both axes are logarithmic.",
     draw_goodput}};

struct page { const char *dir; const struct budget_page *budget; };
static enum status write_page(const void *self, FILE *f) {
    const struct page *page = self;
    char title[256];
    snprintf(title, sizeof title, "What %.100s takes on %.60s", page->budget->plan->model, page->budget->cluster->name);
    page_open(f, title);
    for (size_t i = 0; i < sizeof PICTURES / sizeof *PICTURES; i++)
        TRY(page_add(f, page->dir, &PICTURES[i], page->budget));
    page_close(f);
    return OK;
}

enum status budget_pictures_write(const char *dir, const struct budget_page *p) {
    const struct page page = {dir, p};
    return page_write(dir, "budget.html", write_page, &page);
}
