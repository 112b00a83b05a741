/* Memory over one step, from the plan (lib/trace/memory_timeline.h): bytes alive by role and row, as JSON for pages. */
#pragma once

#include "lib/run/run.h"
#include <jansson.h>

/* A time line has at most this many points. If a step has more rows, a point is the fullest of several rows. */
enum { MEMORY_CHART_POINTS = 1500 };

/** The time line of a compiled rank: "rows" of a step; "planned_bytes", which are allocated: the planned peaks of all
 *  roles; "row" of each point; "alive_bytes" by role from one point to the next; "marks", the first row of each forward
 *  and backward as [row, "F3"] (with several chunks "F3.1", for chunk 1); `name` as "strategy"; "rank"; "ranks". The
 *  same plan gives the same numbers.
 *  @param name released always  @param out NULL on error
 *  @errors E_CONFIG if a step has too many rows (lib/trace/memory_timeline.h); E_MEMORY  @collective{none} */
enum status memory_chart_json(const struct run *compiled, json_t *name, json_t **out);
