/* Memory over one step: bytes alive by role, row by row, read off the plan (lib/trace/memory_timeline.h); as JSON for
 * pages. */
#pragma once

#include "lib/run/run.h"
#include <jansson.h>

/* A time line has at most this many points; where a step has more rows, a point is the fullest of several. */
enum { MEMORY_CHART_POINTS = 1500 };

/** The time line of a compiled rank: "rows" of a step, "planned_bytes" (the planned peaks of all roles: what is
 *  allocated), "row" of each point, "alive_bytes" by role from there to the next point, "marks" as [row, "F3"] ("F3.1"
 *  of chunk 1 where there are several): the first row of each forward and backward; and its name as "strategy", "rank",
 *  "ranks". The same plan gives the same numbers.
 *  @param name released always  @param out NULL on error
 *  @errors E_CONFIG where a step has too many rows (lib/trace/memory_timeline.h); E_MEMORY  @collective{none} */
enum status memory_chart_json(const struct run *compiled, json_t *name, json_t **out);
