/* The comparison as files: DIR/compare.json, with every rank of every row, and DIR/compare.csv, a line a row. Both hold
 * the same keys (docs/metrics.md). They are replaced whole after each row, so that a job that dies leaves the rows
 * before. */
#ifndef TRIVIUM_DRIVER_COMPARE_REPORT_H
#define TRIVIUM_DRIVER_COMPARE_REPORT_H

#include "driver/compare/compare_row.h"
#include <stdio.h>

/** Make the directory, and its parents, and see that files can be written there; reports in it are left as they are.
 *  @errors E_IO with path and reason  @collective{none} */
enum status compare_report_prepare(const char *dir);

/** Write both files. A row that did not run has its reason and nulls (in the CSV empty cells).
 *  @errors E_IO, E_MEMORY  @collective{none} */
enum status compare_report_write(const char *dir, const struct compare_row *rows, int n_rows);

/** Write a file of the report: beside it first, and in its place when it is whole. write(f, self) returns other than 0
 *  when it failed.
 *  @errors E_IO  @collective{none} */
typedef int compare_writer(FILE *, const void *self);
enum status compare_report_replace(const char *dir, const char *name, compare_writer *write, const void *self);

/** A cell as CSV wants it: quoted when it holds a comma, a quote or a line end (RFC 4180). */
void csv_write_cell(FILE *, const char *text);

#endif
