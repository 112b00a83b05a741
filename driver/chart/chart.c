#include "driver/chart/chart.h"

#include "driver/chart/markup.h"
#include "lib/base/output.h"
#include "lib/base/replace.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEGEND_LINE = 22, SWATCH = 13, TITLE_CHARACTERS = 98 };

/* ---- axes and numbers ---- */
const char *chart_colour(enum chart_colour colour) {
    static const char *const colours[N_CHART_COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7",
                                                         "#56b4e9", "#8c8c8c", "#dcdcd8"};
    return colours[colour];
}

struct chart_scale chart_scale_of(double most) {
    if (!isfinite(most) || most <= 0) most = 1;
    double least = fmax(most / CHART_MOST_TICKS, 1e-300), power = pow(10, floor(log10(least)));
    double step = least <= power ? power : least <= 2 * power ? 2 * power : least <= 5 * power ? 5 * power : 10 * power;
    int n = (int)ceil(most / step - 1e-9);
    return (struct chart_scale){n * step, step, n};
}

double chart_scale_at(const struct chart_scale *s, double value) {
    return isfinite(value) && value > 0 ? value / s->end : 0;
}

const char *chart_number(double value, char text[CHART_NUMBER_BYTES]) {
    double size = fabs(value);
    if (!isfinite(value)) snprintf(text, CHART_NUMBER_BYTES, "not known");
    else if (size >= 99.95 && size < 1e7) snprintf(text, CHART_NUMBER_BYTES, "%.0f", value);
    else snprintf(text, CHART_NUMBER_BYTES, "%.3g", value);
    return text;
}

/* ---- boxes, lines, words ---- */
void chart_open(FILE *f, double width, double height, const char *title) {
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
            "%.0f\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"" CHART_INK "\">\n<title>",
            width, height, width, height);
    markup_text(f, title);
    fprintf(f,
            "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fdfdfb\"/>\n<text x=\"%d\" y=\"%d\" "
            "font-size=\"15\" font-weight=\"bold\">",
            CHART_MARGIN, CHART_TITLE_BASE);
    markup_short(f, title, TITLE_CHARACTERS);
    fprintf(f, "</text>\n");
}
void chart_close(FILE *f) { fprintf(f, "</svg>\n"); }

double chart_text_width(int n_characters) { return 6.4 * n_characters; }

void chart_label(FILE *f, double x, double y, enum chart_anchor anchor, const char *text, int most_characters) {
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchors[anchor]);
    markup_short(f, text, most_characters);
    fprintf(f, "</text>\n");
}

void chart_words(FILE *f, double x, double y, enum chart_anchor anchor, const char *words, int most_characters,
                 const char *style) {
    fprintf(f, "<g paint-order=\"stroke\" stroke=\"#fdfdfb\" stroke-width=\"4\"%s>\n", style);
    chart_label(f, x, y, anchor, words, most_characters);
    fprintf(f, "</g>\n");
}

void chart_line(FILE *f, double x1, double y1, double x2, double y2, const char *colour, bool dashed) {
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"%s/>\n", x1, y1, x2, y2, colour,
            dashed ? " stroke-dasharray=\"5 4\"" : "");
}

void chart_box(FILE *f, double x, double y, double width, double height, enum chart_colour colour, const char *hint) {
    fprintf(f,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\" stroke=\"#ffffff\" "
            "stroke-width=\"%s\">",
            x, y, width, height, chart_colour(colour), width < 4 ? "0" : "0.7");
    if (hint) {
        fprintf(f, "<title>");
        markup_text(f, hint);
        fprintf(f, "</title>");
    }
    fprintf(f, "</rect>\n");
}

double chart_legend(FILE *f, const struct chart_series *series, int n_series, unsigned used, double top) {
    double x = CHART_MARGIN, y = top;
    if (n_series < 2) return top;
    for (int i = 0; i < n_series; i++) {
        if (!(used >> i & 1)) continue;
        double width = SWATCH + 6 + chart_text_width(markup_length(series[i].name)) + 16;
        if (x > CHART_MARGIN && x + width > CHART_WIDTH - CHART_MARGIN) x = CHART_MARGIN, y += LEGEND_LINE;
        if (f) {
            chart_box(f, x, y + 3, SWATCH, SWATCH, series[i].colour, NULL);
            chart_label(f, x + SWATCH + 6, y + 14, CHART_LEFT, series[i].name, 60);
        }
        x += width;
    }
    return y + LEGEND_LINE;
}

/* ---- the file of a picture ---- */
enum status chart_file_open(const char *path, FILE **out) {
    *out = replace_begin(path);
    return *out ? OK : FAIL(E_IO, "cannot write svg=%s: %s", path, output_why(errno));
}

enum status chart_file_close(const char *path, FILE *f) {
    return replace_end(path, f, true) ? OK : FAIL(E_IO, "cannot write all of svg=%s: %s", path, strerror(errno));
}
