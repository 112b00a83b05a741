#include "driver/plan/plan_pictures.h"

#include "driver/chart/markup.h"
#include "driver/chart/page.h"
#include "driver/plan/plan_pipeline.h"
#include "driver/plan/plan_tables.h"
#include "driver/recipe.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define GIB 1073741824.0
static const double FAR = 3;                                         /* slower: on the upper edge of the picture */
enum { HINT_BYTES = 320, NAME_BYTES = 320, MEANING_BYTES = 1024 };

static double room_gib(const struct cluster *c) { return (double)(c->memory_bytes - c->reserve_bytes) / GIB; }

/* ---- memory against time ---- */
static const struct { enum chart_colour colour; enum chart_shape shape; } LOOKS[N_WHYS] = {
    [WHY_NO_FIT] = {CHART_GREY, CHART_RING},     [WHY_COMPUTE] = {CHART_BLUE, CHART_DOT},
    [WHY_REPLAY] = {CHART_ORANGE, CHART_DOT},    [WHY_LAYERS] = {CHART_VERMILION, CHART_DOT},
    [WHY_PIPELINE] = {CHART_PURPLE, CHART_DOT},  [WHY_REPLICAS] = {CHART_GREEN, CHART_DOT},
    [WHY_TIED] = {CHART_SKY, CHART_RIMMED}};

struct marks { int n; enum why *why; struct chart_point *point; char (*hint)[HINT_BYTES]; };

static void add_mark(struct marks *m, const struct plan_dot *d, bool fits, const double *best) {
    char text[192], step[CHART_NUMBER_BYTES], gib[CHART_NUMBER_BYTES];
    enum why why = !fits ? WHY_NO_FIT : best ? why_of(d->part_s, fits, best) : WHY_TIED;
    snprintf(m->hint[m->n], HINT_BYTES, "%s: %s s, %s GiB; %s", layout_text(&d->layout, text, sizeof text),
             chart_number(d->step_s, step), chart_number((double)d->bytes / GIB, gib), why_name(why));
    m->point[m->n] = (struct chart_point){(double)d->bytes / GIB, d->step_s, m->hint[m->n]};
    m->why[m->n++] = why;
}

static void collect(const struct plan_page *p, struct marks *m) {
    const struct plan_dots *d = p->dots;
    double best[N_PARTS];
    if (p->fastest) part_seconds(p->fastest->price.phase_s, p->fastest->price.step_s, best);
    for (int i = 0; i < d->no_fit.n; i++) add_mark(m, &d->no_fit.dot[i], false, NULL);
    for (int i = 0; i < d->fit.n; i++) add_mark(m, &d->fit.dot[i], true, p->fastest ? best : NULL);
}

/* The points of one reason one after another, as a set wants them. */
static int sort_into_sets(const struct marks *m, struct chart_point *sorted, struct chart_set sets[N_WHYS]) {
    static const enum why OVER[N_WHYS] = {WHY_NO_FIT, WHY_COMPUTE, WHY_REPLAY, WHY_LAYERS, WHY_PIPELINE, WHY_REPLICAS,
                                          WHY_TIED};           /* tied ones are drawn over the others */
    int n = 0;
    for (int k = 0; k < N_WHYS; k++) {
        enum why why = OVER[k];
        sets[k] = (struct chart_set){why_name(why), LOOKS[why].colour, LOOKS[why].shape, &sorted[n], 0};
        for (int i = 0; i < m->n; i++)
            if (m->why[i] == why) sorted[n++] = m->point[i], sets[k].n++;
    }
    return n;
}

int plan_picture_memory(const struct plan_page *p, FILE *f) {
    int most = p->dots->fit.n + p->dots->no_fit.n + 1, n = 0;
    struct marks m = {0, calloc((size_t)most, sizeof *m.why), calloc((size_t)most, sizeof *m.point),
                      calloc((size_t)most, sizeof *m.hint)};
    struct chart_point *sorted = calloc((size_t)most, sizeof *sorted);
    char wall[64];
    struct chart_set sets[N_WHYS];
    if (m.why && m.point && m.hint && sorted) {
        collect(p, &m);
        sort_into_sets(&m, sorted, sets);
        snprintf(wall, sizeof wall, "%.1f GiB: what a rank has", room_gib(p->cluster));
        n = chart_plot_svg(&(struct chart_plot){"Memory and time of the layouts", "GiB of the fullest rank",
                                                "s of a step", CHART_LOG, CHART_LOG, 0,
                                                p->fastest ? FAR * p->fastest->price.step_s : 0, sets, N_WHYS,
                                                room_gib(p->cluster), wall}, f);
    }
    free(m.why);
    free(m.point);
    free(m.hint);
    free(sorted);
    return n;
}

/* ---- phases ---- */
void plan_parts_series(struct chart_series out[N_PARTS]) {
    static const enum chart_colour COLOURS[N_PARTS] = {CHART_BLUE, CHART_SKY,    CHART_ORANGE, CHART_VERMILION,
                                                       CHART_PALE, CHART_PURPLE, CHART_GREEN,  CHART_GREY};
    for (int i = 0; i < N_PARTS; i++) out[i] = (struct chart_series){part_name((enum part)i), COLOURS[i]};
}

static void fill_group(const struct found *f, bool tied, char *name, struct chart_group *g) {
    char text[192];
    snprintf(name, NAME_BYTES, "%s: mfu %.1f%%, %.1f GiB%s", layout_text(&f->layout, text, sizeof text),
             100 * f->price.mfu, (double)f->price.total_bytes / GIB, tied ? "; tied" : "");
    *g = (struct chart_group){.name = name, .n_bars = 1};
    part_seconds(f->price.phase_s, f->price.step_s, g->bar[0].value);
    for (int i = 0; i < N_PARTS; i++) g->bar[0].value[i] = fmax(0, g->bar[0].value[i]);   /* rounding */
}

void plan_picture_phases(const struct plan_page *p, FILE *f) {
    struct chart_series series[N_PARTS];
    struct chart_group groups[MAX_BEST];
    char names[MAX_BEST][NAME_BYTES];
    plan_parts_series(series);
    for (int i = 0; i < p->n_shown; i++) fill_group(&p->search->best[i], i < p->n_tied, names[i], &groups[i]);
    if (p->n_shown)
        chart_bars_svg(&(struct chart_bars){"Where a step goes", "s of a step", series, N_PARTS, groups, p->n_shown},
                       f);
}

/* ---- the page ---- */
static void write_head(const struct plan_page *p, FILE *f) {
    char title[256];
    const struct search_stat *n = &p->search->stat;
    snprintf(title, sizeof title, "%.100s on %" PRId64 " x %.60s, global batch %" PRId64, p->asked->model, p->ranks,
             p->cluster->name, p->asked->global_batch);
    page_open(f, title);
    fprintf(f, "<p class=\"small\">%" PRId64 " layouts: %" PRId64 " cannot be, %" PRId64 " do not fit, %" PRId64
               " are cut by a bound, %" PRId64 " timed.</p>\n", n->seen, n->refused, n->too_large + n->no_fit, n->bound,
            n->priced - n->no_fit);
    if (!p->fastest) fprintf(f, "<p><strong>Nothing fits.</strong></p>\n");
    if (!p->command[0]) return;
    fprintf(f, "<p>The first of these, as a command:</p>\n<pre>");
    markup_text(f, p->command);
    fprintf(f, "</pre>\n");
}

static enum status draw_memory(const void *self, FILE *f) {
    plan_picture_memory(self, f);
    return OK;
}
static enum status draw_phases(const void *self, FILE *f) {
    plan_picture_phases(self, f);
    return OK;
}
static enum status draw_pipeline(const void *self, FILE *f) {
    const struct plan_page *p = self;
    if (!p->n_shown) return OK;
    return plan_pipeline_svg(&train_recipe, p->asked, p->fixed, p->cluster, &p->search->best[0].layout, f);
}

/* The dots are told apart as the head of the page counts: timed, in the list and not timed before, too large. */
static void say_what_is_drawn(const struct plan_page *p, char *out) {
    const struct dot_sample *fit = &p->dots->fit, *no_fit = &p->dots->no_fit;
    const struct search_stat *n = &p->search->stat;
    snprintf(out, MEANING_BYTES,
             "A dot is a layout that was priced: %d of the %" PRId64 " that were timed, %d of the list that were "
             "refined after the search (block:N, uneven stages), and %d of the %" PRId64 " that do not fit, evenly "
             "over those that no bound had cut and with the time that they would take. Right of the line a rank's "
             "memory is full. A colour says why a layout is not the one to take: the part of its step that differs "
             "most from the fastest's. What is more than %g times as slow as the fastest lies on the upper edge; what "
             "a bound has cut is not drawn. Both axes are logarithmic.",
             fit->n - p->dots->refined, n->priced - n->no_fit, p->dots->refined, no_fit->n, n->too_large + n->no_fit,
             FAR);
}

struct page { const char *dir; const struct plan_page *plan; };
static enum status write_page(const void *self, FILE *f) {
    const struct page *page = self;
    const struct plan_page *p = page->plan;
    char meaning[MEANING_BYTES];
    say_what_is_drawn(p, meaning);
    const struct page_picture pictures[] = {
        {"memory-time", "Memory and time", meaning, draw_memory},
        {"phases", "Where a step goes",
         "The layouts that were found, the first at the top; of tied ones the one that needs least memory comes first. "
         "Parts are those of the busiest stage, and add up to the step.",
         draw_phases},
        {"pipeline", "The pipeline of the first",
         "Each stage with its own times; the last one has the head, so stages are not alike. What follows the last "
         "backward is not drawn: sums over replicas, and the update.",
         draw_pipeline}};
    write_head(p, f);
    plan_table_layouts(p, f);
    plan_table_tipping(p, f);
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) TRY(page_add(f, page->dir, &pictures[i], p));
    plan_table_families(p, f);
    page_close(f);
    return OK;
}

enum status plan_pictures_write(const char *dir, const struct plan_page *p) {
    const struct page page = {dir, p};
    return page_write(dir, "plan.html", write_page, &page);
}
