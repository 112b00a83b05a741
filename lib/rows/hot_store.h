/* Rows between the store of a table, in host memory or in a file, and the slots of its cache (hot_rows.h).
 *
 *   move    a slot gets another row: its old row goes out to the store if it has changed, and the new one comes in
 *   pass    as many moves as the window has pages for:
 *
 *             start    wait for the writes of the pass before; read every page that holds a row of the pass
 *             finish   copy rows out, slot -> page; then rows in, page -> slot; write the pages that rows went out to
 *
 * A file is read and written in whole pages, which hold other rows, too. So a page is read before a row goes out to it,
 * and is in the window once, for all rows that go out and come in. Between the two calls the disk works, and the step
 * computes. In host memory `finish` copies, and there is no window.
 *
 * What breaks: a row that comes in before the one that had its slot has gone out; a page that is read while it is still
 * being written. */
#pragma once

#include "lib/device/disk.h"

/* Rows of the table, by number; -1: none. */
struct hot_move { int64_t in, out, slot; };
/* Moves of a pass, at most, and pages for them. */
struct hot_window { int64_t moves, pages; };

struct hot_store {
    struct disk *disk;                   /* NULL: host memory */
    char *base, *slots;                  /* the first row there, the first slot here */
    int64_t row_bytes;
    struct hot_window size;
    const struct hot_move *moves;        /* of the pass that was started, until it is finished; borrowed */
    int64_t n_moves;
    /* of a file: */
    char *window;                        /* pages; borrowed, aligned to one */
    int64_t n_pages, *page;              /* the table's page in each page of the window, ascending */
    bool *changed;
    struct disk_io *io;                  /* in flight: reads of a started pass, then writes of a finished one */
    int n_io;
};

/** The window of a table in a file, with at most n_moves at a time: at most window_bytes, but room for one move; not
 *  more pages than the table has. Pure. */
struct hot_window hot_store_window(int64_t n_rows, int64_t row_bytes, int64_t n_moves, int64_t window_bytes);

/** The caller has set the members down to `size`, and the window. @errors E_MEMORY */
enum status hot_store_create(struct hot_store *);
/** Waits for what is in flight. */
void hot_store_destroy(struct hot_store *);

/** See above. `moves` stay until the pass is finished; no pass is in flight. @errors E_IO */
enum status hot_store_start(struct hot_store *, const struct hot_move *moves, int64_t n);
/** OK at once if no pass is in flight. @errors E_IO */
enum status hot_store_finish(struct hot_store *);
/** Wait until the rows that went out are in the file. @errors E_IO */
enum status hot_store_wait(struct hot_store *);
