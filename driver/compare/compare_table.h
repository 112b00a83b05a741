/* The comparison for people: a table of memory, a table of speed, and what to read off. */
#ifndef TRIVIUM_DRIVER_COMPARE_TABLE_H
#define TRIVIUM_DRIVER_COMPARE_TABLE_H

#include "driver/compare/compare_row.h"
#include <stdio.h>

/** Every table of `trivium compare`, of all rows, as text. */
void compare_table_print(FILE *, const struct compare_row *rows, int n_rows);

/* ---- the same tables for another layout (driver/compare/compare_page.c) ---- */
enum { COMPARE_CELL_BYTES = 32 };

struct compare_entry { const struct compare_row *row; struct compare_summary sum; int rank, predicted_rank; };
struct compare_column {
    const char *title;                                               /* short, and clear only with its neighbors */
    const char *full;                                                /* clear by itself, with the unit */
    const char *key;                                                 /* in compare.json; "a + b": their sum */
    void (*cell)(const struct compare_entry *, int which, char text[COMPARE_CELL_BYTES]);
    int which;                                                       /* role or axis */
};
struct compare_columns { const char *caption; const struct compare_column *column; int n; };
extern const struct compare_columns compare_memory_columns, compare_speed_columns, compare_forecast_columns;

/** Rows with their summaries. @return [n_rows], to be freed; NULL: no memory */
struct compare_entry *compare_entries(const struct compare_row *rows, int n_rows);
/** "" for a row that did not run. */
void compare_cell(const struct compare_column *, const struct compare_entry *, char text[COMPARE_CELL_BYTES]);
/** Does any row have something to say there? */
bool compare_column_used(const struct compare_column *, const struct compare_entry *, int n);
/** "Least memory ... Most tokens per second ...", a line; nothing when no row ran. */
void compare_conclusion(FILE *, const struct compare_entry *, int n);

/** "12.34" of a number of bytes: MiB with about four digits. */
void compare_mib(double bytes, char *text, size_t text_bytes);

#endif
