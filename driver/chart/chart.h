/* What pictures as SVG are drawn with, for the commands with --svg: axes, boxes, lines, words, a legend. A picture is
 * one <svg> element, a file of its own; it needs no script and no other file. All text is escaped
 * (driver/chart/markup.h). What pages show is drawn by Vega (driver/report). */
#pragma once

#include <stdbool.h>
#include "lib/base/status.h"
#include <stdio.h>

enum { CHART_WIDTH = 860, CHART_MOST_TICKS = 8, CHART_NUMBER_BYTES = 32 };

/* Eight colours that differ also to the colour-blind. Source: Okabe and Ito, "Color universal design", 2008 (black is
 * grey here). */
enum chart_colour { CHART_BLUE, CHART_ORANGE, CHART_GREEN, CHART_VERMILION, CHART_PURPLE, CHART_SKY, CHART_GREY,
                    CHART_PALE, N_CHART_COLOURS };
const char *chart_colour(enum chart_colour);                         /* "#0072b2" */

/* ---- axes ---- */
/* An axis from 0 to `end`, in steps of 1, 2 or 5 times a power of ten. */
struct chart_scale { double end, step; int n_steps; };

/** The axis that holds 0 ... most, with at most CHART_MOST_TICKS steps. Of nothing (zero, negative, not finite) it goes
 *  from 0 to 1. */
struct chart_scale chart_scale_of(double most);
/** Where `value` lies on the axis, 0 to 1; what is not a number, or below the axis, lies at 0. */
double chart_scale_at(const struct chart_scale *, double value);
/** "1234", "12.3", "0.00123": about three digits, and an exponent only beyond 1e7 and below 1e-4; "not known" for what
 *  is not finite. */
const char *chart_number(double value, char text[CHART_NUMBER_BYTES]);

/* ---- boxes, lines, words; lengths are pixels ---- */
#define CHART_INK "#1a1a1a"
#define CHART_GRID "#dcdcd8"
enum { CHART_MARGIN = 16, CHART_TITLE_BASE = 26 };

struct chart_series { const char *name; enum chart_colour colour; };

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
/** Words with the paper's colour around them: no line runs through them. style: ' font-weight="bold"', or "". */
void chart_words(FILE *, double x, double y, enum chart_anchor, const char *words, int most_characters,
                 const char *style);

/* ---- the file of a picture that --svg names ---- */

/** @param out to be closed by chart_file_close; NULL on error  @errors E_IO, with the path and the system's
 *  reason  @collective{none} */
enum status chart_file_open(const char *path, FILE **out);
/** Close it. @errors E_IO when not all of it could be written  @collective{none} */
enum status chart_file_close(const char *path, FILE *);
