/* What all charts are drawn with. Private to driver/chart*.c. Lengths are pixels. */
#ifndef TRIVIUM_DRIVER_CHART_DRAW_H
#define TRIVIUM_DRIVER_CHART_DRAW_H

#include "driver/chart/chart.h"

#define CHART_INK "#1a1a1a"
#define CHART_GRID "#dcdcd8"
enum { CHART_MARGIN = 16, CHART_TITLE_BASE = 26 };

/** <svg> with its title; chart_close ends it. */
void chart_open(FILE *, double width, double height, const char *title);
void chart_close(FILE *);

/** A swatch and a name a series that is used (bit i of `used`), in as many lines as they need, from height `top` on. f
 *  NULL: only measure.
 *  @return the height under the last line; `top` for a single series, which needs none */
double chart_legend(FILE *f, const struct chart_series *, int n_series, unsigned used, double top);

/** The approximate width of a text of n characters. */
double chart_text_width(int n_characters);
enum chart_anchor { CHART_LEFT, CHART_MIDDLE, CHART_RIGHT };
void chart_label(FILE *, double x, double y, enum chart_anchor, const char *text, int most_characters);
void chart_line(FILE *, double x1, double y1, double x2, double y2, const char *colour, bool dashed);
/** A box, with what it is shown for while the pointer is over it (NULL: nothing). */
void chart_box(FILE *, double x, double y, double width, double height, enum chart_colour, const char *hint);

#endif
