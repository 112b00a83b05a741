/* A grid of coloured cells, each with two lines of words: what the colour says is in words, too. */
#include "driver/chart/chart_draw.h"

#include "driver/chart/markup.h"
#include <stdio.h>

enum { TOP = 38, NAMES = 150, HEAD = 30, ROW = 46, FOOT = 16, FIRST_BASE = 19, SECOND_BASE = 36 };

/* Black on all but the dark one. */
static const char *ink_on(enum chart_colour colour) { return colour == CHART_BLUE ? "#ffffff" : CHART_INK; }

static void draw_words(FILE *f, double x, double y, const char *colour, const char *style, const char *words,
                       int most) {
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\"%s>", x, y, colour, style);
    markup_short(f, words, most);
    fprintf(f, "</text>\n");
}

static void draw_cell(const struct chart_grid *c, const struct chart_cell *cell, double x, double y, double width,
                      FILE *f) {
    if (cell->series < 0) return;
    enum chart_colour colour = c->series[cell->series].colour;
    int most = (int)(width / chart_text_width(1));
    chart_box(f, x + 1, y + 1, width - 2, ROW - 2, colour, cell->hint);
    draw_words(f, x + width / 2, y + FIRST_BASE, ink_on(colour), " font-weight=\"bold\"", cell->first, most);
    draw_words(f, x + width / 2, y + SECOND_BASE, ink_on(colour), "", cell->second, most);
}

void chart_grid_svg(const struct chart_grid *c, FILE *f) {
    unsigned used = 0;
    for (int i = 0; i < c->n_rows * c->n_columns; i++)
        if (c->cells[i].series >= 0) used |= 1u << c->cells[i].series;
    double top = chart_legend(NULL, c->series, c->n_series, used, TOP) + HEAD;
    double width = (CHART_WIDTH - NAMES - CHART_MARGIN) / (double)(c->n_columns ? c->n_columns : 1);
    chart_open(f, CHART_WIDTH, top + ROW * c->n_rows + FOOT, c->title);
    chart_legend(f, c->series, c->n_series, used, TOP);
    for (int i = 0; i < c->n_columns; i++)
        chart_label(f, NAMES + (i + 0.5) * width, top - 8, CHART_MIDDLE, c->column_names[i], 20);
    for (int r = 0; r < c->n_rows; r++) {
        double y = top + ROW * r;
        chart_label(f, NAMES - 8, y + ROW / 2.0 + 4, CHART_RIGHT, c->row_names[r], 20);
        for (int i = 0; i < c->n_columns; i++)
            draw_cell(c, &c->cells[r * c->n_columns + i], NAMES + i * width, y, width, f);
    }
    chart_close(f);
}
