/* The comparison as text: tables of memory, speed and predictions, and conclusions. */
#pragma once

#include "driver/compare/compare_row.h"
#include <jansson.h>
#include <stdio.h>

/** Print every table of `trivium compare`, with all rows. */
void compare_table_print(FILE *, const struct compare_row *rows, int n_rows);

/* ---- the same tables for the page (driver/compare/compare_page.c) ---- */
enum { COMPARE_CELL_BYTES = 32 };

/* json: compare_row_json. With a prediction it also has "rank" and "predicted_rank"; without measured work it lacks
 * "predicted_work_ms". */
struct compare_entry { const struct compare_row *row; json_t *json; };
/* The format of a number. RARE: a cell with 0 is empty. From CELL_RANKS on, `key` is a text for readers. */
enum compare_cell_kind { CELL_MIB, CELL_RARE_MIB, CELL_WHOLE, CELL_TENTHS, CELL_PERCENT, CELL_LOSS, CELL_DISTANCE,
                         CELL_RANKS, CELL_REST_MIB, CELL_REST_MS };
struct compare_column {
    const char *title;                                               /* short; the columns around it explain it */
    const char *full;                                                /* complete, with the unit */
    const char *key;                                                 /* in compare.json; "a + b": their sum */
    enum compare_cell_kind kind;
};
struct compare_columns { const char *id, *caption; const struct compare_column *column; int n; };
enum { COMPARE_TABLES = 3 };
extern const struct compare_columns compare_tables[COMPARE_TABLES]; /* memory, speed, forecast */

/** The rows with their numbers. @return [n_rows], freed with compare_entries_free; NULL: no memory */
struct compare_entry *compare_entries(const struct compare_row *rows, int n_rows);
void compare_entries_free(struct compare_entry *, int n);
/** Write the text of a cell: "" for a row that did not run. */
void compare_cell(const struct compare_column *, const struct compare_entry *, char text[COMPARE_CELL_BYTES]);
/** The widest text of a column and its title, in characters; 0: no row has text in it. */
int compare_column_width(const struct compare_column *, const struct compare_entry *, int n);
/** The number of tables with numbers: the forecast has none if no row was predicted. */
int compare_tables_used(const struct compare_row *rows, int n_rows);
/** Why a row has no numbers, as "refused: E_CONFIG ...". */
void compare_reason(const struct compare_row *, char text[COMPARE_REASON_BYTES + 64]);
/** Print the line "Least memory ... Most tokens per second ...", or nothing if no row ran. */
void compare_conclusion(FILE *, const struct compare_entry *, int n);

/** "12.34" of a number of bytes: MiB with about four digits. */
void compare_mib(double bytes, char *text, size_t text_bytes);
