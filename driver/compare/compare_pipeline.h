/* The pipelines of a comparison, as JSON. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>

/** Add to `out` two pipelines for each row that ran with more than one stage (schedule_chart_json), the schedule as it
 *  is predicted and (where it was traced) as it was. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status compare_pipelines(const struct compare_row *, int n_rows, json_t *out);
