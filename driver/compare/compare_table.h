/* The comparison for people: a table of memory, a table of speed, and what to read off. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>
#include <stdio.h>

/** Every table of `trivium compare`, of all rows, as text. */
void compare_table_print(FILE *, const struct compare_row *rows, int n_rows);

/* ---- the same tables for another layout (driver/compare/compare_page.c) ---- */
enum { COMPARE_CELL_BYTES = 32 };

/* json: compare_row_json's; with a prediction its "rank" and "predicted_rank" too, and with work alone
 * "predicted_work_ms". */
struct compare_entry { const struct compare_row *row; json_t *json; };
/* How a number of compare.json is written. RARE: only where it is not 0. From CELL_RANKS on the key is for people. */
enum compare_cell_kind { CELL_MIB, CELL_RARE_MIB, CELL_WHOLE, CELL_TENTHS, CELL_PERCENT, CELL_LOSS, CELL_DISTANCE,
                         CELL_RANKS, CELL_REST_MIB, CELL_REST_MS };
struct compare_column {
    const char *title;                                               /* short, and clear only with its neighbors */
    const char *full;                                                /* clear by itself, with the unit */
    const char *key;                                                 /* in compare.json; "a + b": their sum */
    enum compare_cell_kind kind;
};
struct compare_columns { const char *caption; const struct compare_column *column; int n; };
extern const struct compare_columns compare_memory_columns, compare_speed_columns, compare_forecast_columns;

/** Rows with their numbers. @return [n_rows], for compare_entries_free; NULL: no memory */
struct compare_entry *compare_entries(const struct compare_row *rows, int n_rows);
void compare_entries_free(struct compare_entry *, int n);
/** "" for a row that did not run. */
void compare_cell(const struct compare_column *, const struct compare_entry *, char text[COMPARE_CELL_BYTES]);
/** Does any row have something to say there? */
bool compare_column_used(const struct compare_column *, const struct compare_entry *, int n);
/** "Least memory ... Most tokens per second ...", a line; nothing when no row ran. */
void compare_conclusion(FILE *, const struct compare_entry *, int n);

/** "12.34" of a number of bytes: MiB with about four digits. */
void compare_mib(double bytes, char *text, size_t text_bytes);
