/* The comparison as files: DIR/compare.json, with every rank of every row, and DIR/compare.csv, a line a row. Both hold
 * the same keys (docs/metrics.md). They are replaced whole after each row, so that a job that dies leaves the rows
 * before. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>
#include <stdio.h>

/** Write both files. A row that did not run has its reason and nulls (in the CSV empty cells).
 *  @errors E_IO, E_MEMORY  @collective{none} */
enum status compare_report_write(const char *dir, const struct compare_row *rows, int n_rows);

/** What both have of a row. NULL: no memory  @collective{none} */
json_t *compare_row_json(const struct compare_row *);
/** What compare.json has. NULL: no memory  @collective{none} */
json_t *compare_json(const struct compare_row *, int n_rows);

/** A cell of CSV: quoted when it holds a comma, a quote or a line end (RFC 4180). */
void csv_write_cell(FILE *, const char *text);
