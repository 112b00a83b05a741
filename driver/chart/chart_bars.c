/* Stacked bars in groups. A group is a line with its name, and under it a bar a line: names may then be as long as the
 * picture is wide. */
#include "driver/chart/chart_draw.h"

#include <math.h>
#include <stdio.h>

enum { NAME_LINE = 19, BAR = 15, BAR_LINE = 18, GROUP_GAP = 9, AXIS = 44, LABELS = 80, NUMBERS = 84, TOP = 38,
       NAME_CHARACTERS = 118, REASON_CHARACTERS = 112 };

struct canvas {
    const struct chart_bars *c;
    FILE *f;
    struct chart_scale scale;
    double left, right, top, bottom;
    unsigned used;
};

/* NAN where a part is not known. */
static double total_of(const struct chart_bar *bar, int n_series) {
    double total = 0;
    for (int i = 0; i < n_series; i++) total += bar->value[i];
    return isfinite(total) ? total : NAN;
}

static double largest_total(const struct chart_bars *c) {
    double most = 0;
    for (int g = 0; g < c->n_groups; g++)
        for (int b = 0; !c->groups[g].reason && b < c->groups[g].n_bars; b++)
            most = fmax(most, total_of(&c->groups[g].bar[b], c->n_series));
    return most;
}

/* A bit a series that is more than nothing somewhere. */
static unsigned used_series(const struct chart_bars *c) {
    unsigned used = 0;
    for (int g = 0; g < c->n_groups; g++)
        for (int b = 0; b < c->groups[g].n_bars; b++)
            for (int i = 0; i < c->n_series; i++)
                if (c->groups[g].bar[b].value[i] > 0) used |= 1u << i;
    return used;
}

static bool has_labels(const struct chart_bars *c) {
    for (int g = 0; g < c->n_groups; g++)
        for (int b = 0; b < c->groups[g].n_bars; b++)
            if (c->groups[g].bar[b].label) return true;
    return false;
}

static double group_height(const struct chart_group *g) {
    return NAME_LINE + BAR_LINE * (g->reason ? 1 : g->n_bars) + GROUP_GAP;
}

static struct canvas canvas_of(const struct chart_bars *c, FILE *f) {
    struct canvas v = {.c = c, .f = f, .scale = chart_scale_of(largest_total(c)),
                       .left = CHART_MARGIN + (has_labels(c) ? LABELS : 0),
                       .right = CHART_WIDTH - CHART_MARGIN - NUMBERS, .used = used_series(c)};
    v.top = chart_legend(NULL, c->series, c->n_series, v.used, TOP) + 4;
    v.bottom = v.top;
    for (int g = 0; g < c->n_groups; g++) v.bottom += group_height(&c->groups[g]);
    return v;
}

static double x_of(const struct canvas *v, double value) {
    return v->left + (v->right - v->left) * chart_scale_at(&v->scale, value);
}

static void draw_axis(const struct canvas *v) {
    char text[CHART_NUMBER_BYTES];
    for (int i = 0; i <= v->scale.n_steps; i++) {
        double x = x_of(v, i * v->scale.step);
        chart_line(v->f, x, v->top, x, v->bottom + 4, CHART_GRID, false);
        chart_label(v->f, x, v->bottom + 18, CHART_MIDDLE, chart_number(i * v->scale.step, text), CHART_NUMBER_BYTES);
    }
    chart_line(v->f, v->left, v->bottom, v->right, v->bottom, CHART_INK, false);
    chart_label(v->f, v->right, v->bottom + 35, CHART_RIGHT, v->c->unit, 110);
}

static void draw_bar(const struct canvas *v, const struct chart_bar *bar, double y) {
    const struct chart_bars *c = v->c;
    char number[CHART_NUMBER_BYTES], hint[160];
    double total = total_of(bar, c->n_series), from = 0;
    if (bar->label) chart_label(v->f, v->left - 8, y + 12, CHART_RIGHT, bar->label, 12);
    for (int i = 0; isfinite(total) && i < c->n_series; i++) {
        double x = x_of(v, from), width = x_of(v, from + bar->value[i]) - x;
        snprintf(hint, sizeof hint, "%s%s%s: %s %s", bar->label ? bar->label : "", bar->label ? " " : "",
                 c->series[i].name, chart_number(bar->value[i], number), c->unit);
        if (bar->value[i] > 0) chart_box(v->f, x, y, width, BAR, c->series[i].colour, hint);
        from += bar->value[i];
    }
    chart_label(v->f, x_of(v, total) + 6, y + 12, CHART_LEFT, chart_number(total, number), CHART_NUMBER_BYTES);
}

/* White behind words, so that the grid does not run through them. */
static void draw_words(const struct canvas *v, double x, double y, const char *words, int most, const char *style) {
    fprintf(v->f, "<g paint-order=\"stroke\" stroke=\"#fdfdfb\" stroke-width=\"4\" %s>\n", style);
    chart_label(v->f, x, y, CHART_LEFT, words, most);
    fprintf(v->f, "</g>\n");
}

static double draw_group(const struct canvas *v, const struct chart_group *g, double y) {
    draw_words(v, CHART_MARGIN, y + 14, g->name, NAME_CHARACTERS, "font-weight=\"bold\"");
    if (g->reason)
        draw_words(v, CHART_MARGIN, y + NAME_LINE + 12, g->reason, REASON_CHARACTERS, "font-style=\"italic\"");
    for (int b = 0; !g->reason && b < g->n_bars; b++) draw_bar(v, &g->bar[b], y + NAME_LINE + b * BAR_LINE);
    return y + group_height(g);
}

void chart_bars_svg(const struct chart_bars *c, FILE *f) {
    struct canvas v = canvas_of(c, f);
    chart_open(f, CHART_WIDTH, v.bottom + AXIS, c->title);
    chart_legend(f, c->series, c->n_series, v.used, TOP);
    draw_axis(&v);
    double y = v.top;
    for (int g = 0; g < c->n_groups; g++) y = draw_group(&v, &c->groups[g], y);
    chart_close(f);
}
