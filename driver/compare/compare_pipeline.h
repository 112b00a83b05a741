/* The pipelines of a comparison, as JSON. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>

/** Add to `out` two charts for each row that ran with several stages (schedule_chart_json): the predicted schedule,
 *  and the traced one if there is a trace. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status compare_pipelines(const struct compare_row *, int n_rows, json_t *out);
