/* A schedule that the user has written: a table in a file. See pp_table.c. */
#pragma once

#include "pp/pp_schedule.h"
#include <stdio.h>

/* An action of the table, and its line and cell in the file, from 1. */
struct pp_cell { enum action_kind kind; int stage, microbatch, line, cell; };

struct pp_table {
    char path[256];
    struct pp_schedule row;              /* the entry of the schedule list: name, placement, split W or not */
    struct pp_placement place;
    int n_ranks, n_chunks, n_stages, n_microbatches;   /* n_stages: virtual ones */
    struct hop *at;                      /* [virtual stage]: rank and chunk */
    struct pp_line { int n, line; struct pp_cell *cells; } *ranks;
};

/** Read a file, and refuse a table that cannot run; the message has the line and the cell. Free *out.
 *  @errors E_CONFIG, E_DATA: the file cannot be read  @collective{none} */
enum status pp_table_read(const char *path, struct pp_table **out);
void pp_table_free(struct pp_table **);

/** The table of a path, read once and kept by the process until a call names another path; borrowed.
 *  @errors as pp_table_read  @collective{none} */
enum status pp_table_of(const char *path, const struct pp_table **out);

/** Write the compute actions of all stages as such a file. Only for one pipe. */
void pp_table_write(const struct pp_schedule *, const struct pp_shape *, const struct schedule *stages, FILE *);

/* ---- pp_table_row.c ---- */
/** Make the table's row and placement from the cells that were read. */
void pp_table_make_row(struct pp_table *);

/* ---- pp_table_check.c ---- */
/** Check that all ranks can run their lines in order. @errors E_CONFIG with line and cell */
enum status pp_table_check(const struct pp_table *);
/** "1F0 (line 2, cell 3)". Static storage, 2 in turn. */
const char *pp_cell_text(const struct pp_table *, const struct pp_cell *);
