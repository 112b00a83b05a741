/* The pipeline of a layout as a picture: each stage with its own times, messages as long as the cluster's wires make
 * them. */
#pragma once

#include "planner/layout.h"
#include "planner/price.h"
#include <jansson.h>
#include <stdio.h>

/** The number of microbatches to draw: all, or, where their boxes could not be told apart, the fewest full rounds
 *  through the pipeline (at least two) that make up the limit. A schedule repeats itself between fill and drain. */
int plan_pipeline_microbatches(int n_stages, int n_chunks, int n_microbatches);

/** Write one <svg>, where svg is not NULL; and JSON (schedule_chart_json), where json is not: to be released. Nothing
 *  and NULL for a layout without a pipeline.
 *  @errors those of price_plan  @collective{none} */
enum status plan_pipeline(const struct recipe *, const struct plan *asked, unsigned fixed, const struct cluster *,
                          const struct layout *, FILE *svg, json_t **json);
