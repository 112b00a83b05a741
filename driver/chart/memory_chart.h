/* Memory over one step: bytes alive by role, row by row, read off the plan (lib/trace/memory_timeline.h); as JSON for
 * pages, and as a picture. */
#pragma once

#include "driver/chart/chart.h"
#include "lib/run/run.h"
#include <jansson.h>
#include <stdio.h>

/* The colours of the roles, the same in every picture. [N_ROLES] */
extern const struct chart_series memory_chart_roles[];

/* A picture has at most this many points; where a step has more rows, a point is the fullest of several. */
enum { MEMORY_CHART_POINTS = 1500, MEMORY_CHART_LABEL_BYTES = 24 };

/* label: "F3"; "F3.1" of chunk 1 where there are several */
struct memory_mark { int row; char label[MEMORY_CHART_LABEL_BYTES]; };

/* Zero is a chart without points. */
struct memory_chart {
    int n_rows, n_points, n_marks;
    int *row;                                             /* [n_points]: rising; a point's bytes hold to the next one */
    int64_t (*alive)[N_ROLES];                            /* [n_points] bytes */
    struct memory_mark *marks;                            /* [n_marks]: the first row of each forward and backward */
    int64_t planned;                                      /* the planned peaks of all roles: what is allocated */
};

/** Make the chart of a compiled rank. The same plan gives the same numbers. The caller frees *out, also after an error.
 *  @errors E_CONFIG where a step has too many rows (lib/trace/memory_timeline.h); E_MEMORY  @collective{none} */
enum status memory_chart_make(const struct run *compiled, struct memory_chart *out);
void memory_chart_fini(struct memory_chart *);

/** For a page: "rows" of a step, "row" of each point, "alive_bytes" by role from there to the next point, "marks" as
 *  [row, word], "planned_bytes". NULL: no memory */
json_t *memory_chart_json(const struct memory_chart *);
/** Write one <svg>, CHART_WIDTH wide: the roles in MiB, piled up as stairs. */
void memory_chart_svg(const struct memory_chart *, const char *title, FILE *);
