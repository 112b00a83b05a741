/* The pipeline of a layout as a picture: with each stage's own times, and messages as slow as the cluster's wires. */
#pragma once

#include "planner/layout.h"
#include "planner/price.h"
#include <jansson.h>
#include <stdio.h>

/** The number of microbatches to draw, at most n_microbatches. If boxes were too narrow, draw fewer full rounds of
 *  n_stages microbatches, at least two. A schedule repeats itself between fill and drain, so a few rounds show it. */
int plan_pipeline_microbatches(int n_stages, int n_chunks, int n_microbatches);

/** Draw the pipeline: one <svg> if svg is not NULL, schedule_chart_json if json is not NULL; the caller releases *json.
 *  For a layout without a pipeline write nothing, and set *json to NULL.
 *  @errors those of price_plan  @collective{none} */
enum status plan_pipeline(const struct recipe *, const struct plan *asked, unsigned fixed, const struct cluster *,
                          const struct layout *, FILE *svg, json_t **json);
