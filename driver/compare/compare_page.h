/* The comparison as one page, DIR/report.html, and its JSON, DIR/report.json: what was run, the tables of the terminal,
 * compare.json, and what pictures need in addition, pipelines and memory over a step. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>

/* What was run. */
struct compare_about {
    const struct options *options;       /* what all strategies have in common; NULL: not said */
    int n_strategies;                    /* asked for */
    char date[32], machine[256];
};

/** Now, and this machine: processor, cores, ranks, MPI.  @collective{none} */
void compare_about_here(struct compare_about *);

/** The JSON of the page; of the strategies asked for the first n_rows are done. The caller releases *out.
 *  @errors E_MEMORY, and those of compare_pipelines  @collective{none} */
enum status compare_page_json(const struct compare_about *, const struct compare_row *, int n_rows, json_t **out);
/** Replace both files. @errors E_IO, E_MEMORY, and those of compare_pipelines  @collective{none} */
enum status compare_page_write(const char *dir, const struct compare_about *, const struct compare_row *, int n_rows);
