/* Pictures as SVG, for the commands with --svg: stacked bars, stacked areas over a time line; their axes and legends. A
 * picture is one <svg> element, a file of its own; it needs no script and no other file. All text is escaped
 * (driver/chart/markup.h). What pages show is drawn by Vega (driver/report).
 *
 * What is not a number is never drawn: a bar of it says "not known". Zero has no length but its number. Whatever the
 * ratio of the largest to the smallest, each bar has its number after it, so that nothing is lost where a length is
 * below a pixel. */
#ifndef TRIVIUM_DRIVER_CHART_H
#define TRIVIUM_DRIVER_CHART_H

#include <stdbool.h>
#include "lib/base/status.h"
#include <stdio.h>

enum { CHART_WIDTH = 860, CHART_MOST_SERIES = 8, CHART_MOST_BARS = 6, CHART_MOST_TICKS = 8, CHART_NUMBER_BYTES = 32 };

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

/* ---- stacked bars, lying, in groups under a name ---- */
struct chart_series { const char *name; enum chart_colour colour; };

struct chart_bar {
    const char *label;                         /* left of it: "measured"; NULL: none */
    double value[CHART_MOST_SERIES];           /* of each series; not negative */
};
struct chart_group {
    const char *name;                          /* above its bars, cut where it is too long */
    const char *reason;                        /* why there are no bars; NULL: there are */
    int n_bars;
    struct chart_bar bar[CHART_MOST_BARS];
};
struct chart_bars {
    const char *title, *unit;                  /* "MiB": under the axis */
    const struct chart_series *series;         /* [n_series]; of a single one there is no legend */
    int n_series;
    const struct chart_group *groups;          /* [n_groups] */
    int n_groups;
};
/** Write the bars as an SVG picture of their own. */
void chart_bars_svg(const struct chart_bars *, FILE *);

/* ---- stacked areas ---- */
struct chart_mark { double x; const char *label; };  /* an upright line, with a word at its head */
struct chart_areas {
    const char *title, *x_name, *unit;
    const struct chart_series *series;
    int n_series, n_points, n_marks;
    const double *x;                           /* [n_points], rising; the value holds from there to the next point */
    const double *value;                       /* [n_points][n_series], not negative */
    double x_end;                              /* where the last point's value ends */
    double highest;                            /* what the upright axis has to hold at least; 0: as it fits */
    double level;                              /* a dashed line across, and what it is called; NAN: none */
    const char *level_name;
    const struct chart_mark *marks;
};
/** @return its height */
double chart_areas_svg(const struct chart_areas *, FILE *);

/* ---- the file of a picture that --svg names ---- */

/** @param out to be closed by chart_file_close; NULL on error  @errors E_IO, with the path and the system's
 *  reason  @collective{none} */
enum status chart_file_open(const char *path, FILE **out);
/** Close it. @errors E_IO when not all of it could be written  @collective{none} */
enum status chart_file_close(const char *path, FILE *);

#endif
