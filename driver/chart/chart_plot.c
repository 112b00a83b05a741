/* Points and lines over two axes, each from 0 or logarithmic. */
#include "driver/chart/chart_draw.h"

#include "driver/chart/markup.h"
#include <math.h>
#include <stdio.h>

enum { TOP = 38, LEFT = 74, PLOT = 360, AXIS = 52, WALL_LINE = 28, MOST_TICKS = 40, FEW_TICKS = 11 };

/* From low to high, both as they are drawn: logarithms where it is logarithmic. */
struct axis { enum chart_axis_kind kind; double low, high, tick[MOST_TICKS]; int n_ticks; };
struct canvas { const struct chart_plot *c; FILE *f; struct axis x, y; double top, right; unsigned used; };

/* ---- axes ---- */
static double place(enum chart_axis_kind kind, double value) { return kind == CHART_LINEAR ? value : log10(value); }
static bool can_lie(enum chart_axis_kind kind, double value) {
    return isfinite(value) && (kind == CHART_LINEAR ? value >= 0 : value > 0);
}
static bool is_drawn(const struct chart_plot *c, const struct chart_point *p) {
    return can_lie(c->x_kind, p->x) && can_lie(c->y_kind, p->y);
}

static void add_tick(struct axis *a, double value) {
    if (a->n_ticks < MOST_TICKS) a->tick[a->n_ticks++] = value;
}

/* Inside of the axis: at every multiple of a power of ten, or at 1, 2 and 5 times. */
static void tick_decades(struct axis *a, double least, double most) {
    bool every = most < 10 * least;
    for (double power = pow(10, floor(log10(least))); power <= most; power *= 10)
        for (int k = 1; k < 10; k++) {
            if (k * power < least || k * power > most || !(every || k == 1 || k == 2 || k == 5)) continue;
            add_tick(a, k * power);
        }
}
static void tick_doubles(struct axis *a, double least, double most) {
    for (double at = least; a->n_ticks == 0 || at <= most * (1 + 1e-9); at *= 2) {
        if (a->n_ticks == MOST_TICKS) break;
        add_tick(a, at);
    }
}
static void tick_steps(struct axis *a, double most) {
    struct chart_scale s = chart_scale_of(most);
    for (int i = 0; i <= s.n_steps; i++) add_tick(a, i * s.step);
}

static const double AIR = 1.15;                                      /* around what lies on a logarithmic axis */

static struct axis axis_of(enum chart_axis_kind kind, double least, double most) {
    struct axis a = {.kind = kind};
    if (!(most > 0)) least = most = 1;
    if (kind == CHART_LOG) {
        least /= AIR, most *= AIR;
        tick_decades(&a, least, most);
        a.low = place(kind, least), a.high = place(kind, most);
        return a;
    }
    if (kind == CHART_LINEAR) tick_steps(&a, most);
    if (kind == CHART_DOUBLING) tick_doubles(&a, least, most);
    a.low = place(kind, a.tick[0]), a.high = place(kind, fmax(most, a.tick[a.n_ticks - 1]));
    if (a.high <= a.low) a.high = a.low + 1;
    return a;
}

static double x_of(const struct canvas *v, double x) {
    return LEFT + (v->right - LEFT) * (place(v->x.kind, x) - v->x.low) / (v->x.high - v->x.low);
}
static double y_of(const struct canvas *v, double y) {
    if (v->c->y_cap > 0) y = fmin(y, v->c->y_cap);
    return v->top + PLOT * (1 - (place(v->y.kind, y) - v->y.low) / (v->y.high - v->y.low));
}

/* ---- the canvas ---- */
struct range { double least, most; };
static void widen(struct range *r, double value) {
    r->least = fmin(r->least, value);
    r->most = fmax(r->most, value);
}

enum { MOST_SETS = 16 };
static int legend_of(const struct canvas *v, struct chart_series out[MOST_SETS]) {
    int n = 0;
    for (int i = 0; i < v->c->n_sets && n < MOST_SETS; i++)
        if (v->used >> i & 1 && v->c->sets[i].name[0])
            out[n++] = (struct chart_series){v->c->sets[i].name, v->c->sets[i].colour};
    return n;
}

static double draw_legend(const struct canvas *v, FILE *f) {
    struct chart_series series[MOST_SETS];
    int n = legend_of(v, series);
    return chart_legend(f, series, n, ~0u, TOP);
}

static struct canvas canvas_of(const struct chart_plot *c, FILE *f) {
    struct canvas v = {.c = c, .f = f, .right = CHART_WIDTH - CHART_MARGIN - 8};
    struct range x = {INFINITY, 0}, y = {INFINITY, 0};
    for (int i = 0; i < c->n_sets; i++)
        for (int k = 0; k < c->sets[i].n; k++) {
            if (!is_drawn(c, &c->sets[i].points[k])) continue;
            widen(&x, c->sets[i].points[k].x);
            widen(&y, c->sets[i].points[k].y);
            v.used |= 1u << i;
        }
    if (c->y_most > 0) widen(&y, c->y_most);
    if (c->y_cap > 0) y.most = fmin(y.most, c->y_cap), y.least = fmin(y.least, c->y_cap);
    if (isfinite(c->wall)) widen(&x, c->wall);
    v.x = axis_of(c->x_kind, x.least, x.most);
    v.y = axis_of(c->y_kind, y.least, y.most);
    if (c->y_cap > 0 && y.most >= c->y_cap) v.y.high = place(c->y_kind, c->y_cap);   /* dots lie on the very edge */
    while (v.y.n_ticks > 1 && place(c->y_kind, v.y.tick[v.y.n_ticks - 1]) > v.y.high + 1e-9) v.y.n_ticks--;
    v.top = draw_legend(&v, NULL) + WALL_LINE;
    return v;
}

/* ---- drawing ---- */
static bool is_power_of_ten(double value) {
    double x = log10(value);
    return fabs(x - round(x)) < 1e-9;
}

/* Where there are many ticks of a logarithmic axis only powers of ten have their number. */
static bool has_number(const struct axis *a, int i) {
    return a->kind != CHART_LOG || a->n_ticks <= FEW_TICKS || is_power_of_ten(a->tick[i]);
}

static void draw_axes(const struct canvas *v) {
    char text[CHART_NUMBER_BYTES];
    double bottom = v->top + PLOT;
    for (int i = 0; i < v->y.n_ticks; i++) {
        double y = y_of(v, v->y.tick[i]);
        chart_line(v->f, LEFT, y, v->right, y, CHART_GRID, false);
        if (has_number(&v->y, i))
            chart_label(v->f, LEFT - 7, y + 4, CHART_RIGHT, chart_number(v->y.tick[i], text), CHART_NUMBER_BYTES);
    }
    for (int i = 0; i < v->x.n_ticks; i++) {
        double x = x_of(v, v->x.tick[i]);
        chart_line(v->f, x, v->top, x, bottom + 5, CHART_GRID, false);
        if (has_number(&v->x, i))
            chart_label(v->f, x, bottom + 18, CHART_MIDDLE, chart_number(v->x.tick[i], text), CHART_NUMBER_BYTES);
    }
    chart_line(v->f, LEFT, bottom, v->right, bottom, CHART_INK, false);
    chart_line(v->f, LEFT, v->top, LEFT, bottom, CHART_INK, false);
    chart_label(v->f, CHART_MARGIN, v->top - 13, CHART_LEFT, v->c->y_name, 60);
    chart_label(v->f, v->right, bottom + 38, CHART_RIGHT, v->c->x_name, 110);
}

static void draw_wall(const struct canvas *v) {
    if (!can_lie(v->x.kind, v->c->wall)) return;
    double x = x_of(v, v->c->wall);
    fprintf(v->f, "<rect class=\"wall\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"#d55e00\" "
            "fill-opacity=\"0.08\"/>\n", x, v->top, v->right - x, PLOT);
    fprintf(v->f, "<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n", x,
            v->top - 9, x, v->top + PLOT, CHART_INK);
    chart_label(v->f, x, v->top - 13, x > CHART_WIDTH / 2.0 ? CHART_RIGHT : CHART_LEFT, v->c->wall_name, 60);
}

static void draw_point(const struct canvas *v, const struct chart_set *set, const struct chart_point *p) {
    static const struct { double radius; const char *style; } SHAPES[] = {
        [CHART_LINE] = {3, "stroke=\"#ffffff\" stroke-width=\"0.7\""},
        [CHART_DOT] = {4, "stroke=\"#ffffff\" stroke-width=\"0.7\" fill-opacity=\"0.85\""},
        [CHART_RING] = {3.2, "fill-opacity=\"0\" stroke-width=\"1.2\""},
        [CHART_RIMMED] = {5.5, "stroke=\"" CHART_INK "\" stroke-width=\"1.4\""}};
    const char *colour = chart_colour(set->colour);
    fprintf(v->f, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%g\" fill=\"%s\" %s", x_of(v, p->x), y_of(v, p->y),
            SHAPES[set->shape].radius, colour, SHAPES[set->shape].style);
    if (set->shape == CHART_RING) fprintf(v->f, " stroke=\"%s\"", colour);
    if (!p->hint) {
        fprintf(v->f, "/>\n");
        return;
    }
    fprintf(v->f, "><title>");
    markup_text(v->f, p->hint);
    fprintf(v->f, "</title></circle>\n");
}

static void draw_line(const struct canvas *v, const struct chart_set *set) {
    fprintf(v->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", chart_colour(set->colour));
    for (int i = 0; i < set->n; i++)
        if (is_drawn(v->c, &set->points[i]))
            fprintf(v->f, "%.2f,%.2f ", x_of(v, set->points[i].x), y_of(v, set->points[i].y));
    fprintf(v->f, "\"/>\n");
}

static int draw_set(const struct canvas *v, const struct chart_set *set) {
    int n = 0;
    if (set->shape == CHART_LINE) draw_line(v, set);
    for (int i = 0; i < set->n; i++) {
        if (!is_drawn(v->c, &set->points[i])) continue;
        n++;
        if (set->shape != CHART_LINE || set->points[i].hint) draw_point(v, set, &set->points[i]);
    }
    return n;
}

int chart_plot_svg(const struct chart_plot *c, FILE *f) {
    struct canvas v = canvas_of(c, f);
    int n = 0;
    chart_open(f, CHART_WIDTH, v.top + PLOT + AXIS, c->title);
    draw_legend(&v, f);
    draw_axes(&v);
    draw_wall(&v);
    for (int i = 0; i < c->n_sets; i++)
        if (v.used >> i & 1) n += draw_set(&v, &c->sets[i]);
    chart_close(f);
    return n;
}
