/* Stacked areas: each series stands on the ones before it, as a staircase, since a value holds until the next point. */
#include "driver/chart/chart_draw.h"

#include "driver/chart/markup.h"
#include <math.h>
#include <stdio.h>

enum { TOP = 38, LEFT = 74, PLOT = 250, AXIS = 52, MARK_LINE = 18, MARK_GAP = 3 };

static const double HEADROOM = 1.08;                                 /* for the word on the dashed line */

struct canvas { const struct chart_areas *c; FILE *f; struct chart_scale x, y; double top, right; unsigned used; };

static double value_at(const struct chart_areas *c, int point, int series) {
    double value = c->value[(size_t)point * (size_t)c->n_series + (size_t)series];
    return isfinite(value) && value > 0 ? value : 0;
}

static double stack(const struct chart_areas *c, int point, int n_series) {
    double total = 0;
    for (int i = 0; i < n_series; i++) total += value_at(c, point, i);
    return total;
}

static double highest(const struct chart_areas *c) {
    double most = HEADROOM * fmax(c->highest, isfinite(c->level) ? c->level : 0);
    for (int i = 0; i < c->n_points; i++) most = fmax(most, stack(c, i, c->n_series));
    return most;
}

static unsigned used_series(const struct chart_areas *c) {
    unsigned used = 0;
    for (int p = 0; p < c->n_points; p++)
        for (int i = 0; i < c->n_series; i++)
            if (value_at(c, p, i) > 0) used |= 1u << i;
    return used;
}

static struct canvas canvas_of(const struct chart_areas *c, FILE *f) {
    unsigned used = used_series(c);
    double top = chart_legend(NULL, c->series, c->n_series, used, TOP) + (c->n_marks ? MARK_LINE : 6);
    return (struct canvas){c, f, chart_scale_of(c->x_end), chart_scale_of(highest(c)), top, CHART_WIDTH - CHART_MARGIN,
                           used};
}

/* The x axis ends where the last value does, not at a round number. */
static double x_of(const struct canvas *v, double x) {
    return v->c->x_end > 0 ? LEFT + (v->right - LEFT) * x / v->c->x_end : LEFT;
}
static double y_of(const struct canvas *v, double y) { return v->top + PLOT * (1 - chart_scale_at(&v->y, y)); }

static void draw_axes(const struct canvas *v) {
    char text[CHART_NUMBER_BYTES];
    double bottom = v->top + PLOT;
    for (int i = 0; i <= v->y.n_steps; i++) {
        double y = y_of(v, i * v->y.step);
        chart_line(v->f, LEFT, y, v->right, y, CHART_GRID, false);
        chart_label(v->f, LEFT - 7, y + 4, CHART_RIGHT, chart_number(i * v->y.step, text), CHART_NUMBER_BYTES);
    }
    for (int i = 0; i <= v->x.n_steps && i * v->x.step <= v->c->x_end * (1 + 1e-9); i++) {
        double x = x_of(v, i * v->x.step);
        chart_line(v->f, x, bottom, x, bottom + 5, CHART_INK, false);
        chart_label(v->f, x, bottom + 18, CHART_MIDDLE, chart_number(i * v->x.step, text), CHART_NUMBER_BYTES);
    }
    chart_line(v->f, LEFT, bottom, v->right, bottom, CHART_INK, false);
    chart_label(v->f, LEFT - 7, v->top - 8, CHART_RIGHT, v->c->unit, 10);
    chart_label(v->f, v->right, bottom + 36, CHART_RIGHT, v->c->x_name, 110);
}

/* Does an edge of the series move here? Where none does the step is left out, which makes files of long steps much
 * smaller. */
static bool moves(const struct chart_areas *c, int point, int series) {
    return point == 0 || stack(c, point, series) != stack(c, point - 1, series) ||
           stack(c, point, series + 1) != stack(c, point - 1, series + 1);
}

/* An edge as a staircase, from left to right or back. */
static void draw_edge(const struct canvas *v, int series, int below, bool back) {
    const struct chart_areas *c = v->c;
    double end = c->x_end;
    for (int k = 0, n = c->n_points; k < n; k++) {
        int i = back ? n - 1 - k : k;
        if (!moves(c, i, series)) continue;
        double from = c->x[i];
        if (!back) {
            int next = i + 1;
            while (next < n && !moves(c, next, series)) next++;
            end = next < n ? c->x[next] : c->x_end;
        }
        double y = y_of(v, stack(c, i, below));
        fprintf(v->f, " %.1f %.1f %.1f %.1f", x_of(v, back ? end : from), y, x_of(v, back ? from : end), y);
        end = from;
    }
}

/* Along the upper edge from left to right, and back along the lower one. */
static void draw_area(const struct canvas *v, int series) {
    const struct chart_areas *c = v->c;
    fprintf(v->f, "<path fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.4\" d=\"M",
            chart_colour(c->series[series].colour));
    draw_edge(v, series, series + 1, false);
    draw_edge(v, series, series, true);
    fprintf(v->f, " Z\"><title>");
    markup_text(v->f, c->series[series].name);
    fprintf(v->f, "</title></path>\n");
}

/* A word that would run into the one before it is left out. So is a line less than MARK_GAP after the last one, with
 * its word: however many marks there are, the picture has no more than fit. */
static void draw_marks(const struct canvas *v) {
    double free_from = LEFT, line_from = LEFT;
    for (int i = 0; i < v->c->n_marks; i++) {
        const struct chart_mark *m = &v->c->marks[i];
        double x = x_of(v, m->x), end = i + 1 < v->c->n_marks ? x_of(v, m[1].x) : v->right;
        int n = snprintf(NULL, 0, "%s", m->label);
        if (x < line_from) continue;
        line_from = x + MARK_GAP;
        chart_line(v->f, x, v->top - 4, x, v->top + PLOT, "#00000040", false);
        if (x + 2 < free_from || x + 2 + chart_text_width(n) > end + chart_text_width(1)) continue;
        chart_label(v->f, x + 2, v->top - 6, CHART_LEFT, m->label, 40);
        free_from = x + 2 + chart_text_width(n);
    }
}

static void draw_level(const struct canvas *v) {
    if (!isfinite(v->c->level)) return;
    double y = y_of(v, v->c->level);
    chart_line(v->f, LEFT, y, v->right, y, CHART_INK, true);
    fprintf(v->f, "<g paint-order=\"stroke\" stroke=\"#fdfdfb\" stroke-width=\"4\">\n");
    chart_label(v->f, v->right - 4, y - 5, CHART_RIGHT, v->c->level_name, 90);
    fprintf(v->f, "</g>\n");
}

double chart_areas_svg(const struct chart_areas *c, FILE *f) {
    struct canvas v = canvas_of(c, f);
    double height = v.top + PLOT + AXIS;
    chart_open(f, CHART_WIDTH, height, c->title);
    chart_legend(f, c->series, c->n_series, v.used, TOP);
    draw_axes(&v);
    for (int i = 0; i < c->n_series; i++)
        if (v.used >> i & 1) draw_area(&v, i);
    draw_marks(&v);
    draw_level(&v);
    chart_close(f);
    return height;
}
