/* The comparison as files: DIR/compare.json, with every rank of every row, and DIR/compare.csv, with a line per row.
 * Both have the same keys (docs/metrics.md) and are replaced after each row: a job that dies keeps its earlier rows. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>
#include <stdio.h>

/** Write both files. A row that did not run has an error, and nulls (empty cells in the CSV).
 *  @errors E_IO, E_MEMORY  @collective{none} */
enum status compare_report_write(const char *dir, const struct compare_row *rows, int n_rows);

/** The keys and values of a row that both files have. NULL: no memory  @collective{none} */
json_t *compare_row_json(const struct compare_row *);
/** The contents of compare.json. NULL: no memory  @collective{none} */
json_t *compare_json(const struct compare_row *, int n_rows);

/** Write a cell of CSV, quoted if it has a comma, a quote or a line end (RFC 4180). */
void csv_write_cell(FILE *, const char *text);
