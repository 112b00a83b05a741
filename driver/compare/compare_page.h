/* The comparison as one page, DIR/report.html, and its JSON, DIR/report.json: options and machine, the terminal's
 * tables, compare.json, and data for pictures: pipelines, and memory over a step. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>

/* The request, its date and machine. */
struct compare_about {
    const struct options *options;       /* common to all strategies; NULL: not in the page */
    int n_strategies;                    /* in the request */
    char date[32], machine[256];
};

/** Set the date, and the machine: processor, cores, ranks, MPI.  @collective{none} */
void compare_about_here(struct compare_about *);

/** The JSON of the page, with the first n_rows strategies of the request. The caller releases *out.
 *  @errors E_MEMORY, and those of compare_pipelines  @collective{none} */
enum status compare_page_json(const struct compare_about *, const struct compare_row *, int n_rows, json_t **out);
/** Replace both files. @errors E_IO, E_MEMORY, and those of compare_pipelines  @collective{none} */
enum status compare_page_write(const char *dir, const struct compare_about *, const struct compare_row *, int n_rows);

/* ---- the pipelines of a comparison, as JSON (compare_pipeline.c) ---- */
/** Add to `out` two charts for each row that ran with several stages (schedule_chart_json): the predicted schedule,
 *  and the traced one if there is a trace. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status compare_pipelines(const struct compare_row *, int n_rows, json_t *out);
