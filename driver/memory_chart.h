/* Memory over one step as a picture: bytes alive by role, row by row, read off the plan (lib/program/memory_timeline.h). */
#ifndef TRIVIUM_DRIVER_MEMORY_CHART_H
#define TRIVIUM_DRIVER_MEMORY_CHART_H

#include "driver/chart.h"
#include "lib/run/run.h"
#include <stdio.h>

/* The colours of the roles, the same in every picture. [N_ROLES] */
extern const struct chart_series memory_chart_roles[];

/** One <svg> of the rank that was compiled: stacked bytes of each role, the start of each forward and backward, and the planned peak, which is
 *  what is allocated. A picture has at most MEMORY_CHART_COLUMNS points; where a step has more rows, a column is the fullest of several.
 *  The same plan gives the same bytes.  @errors E_MEMORY  @collective{none} */
enum { MEMORY_CHART_COLUMNS = 1500 };
enum status memory_chart_svg(const struct run *compiled, const char *title, FILE *);

#endif
