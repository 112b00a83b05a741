/* Rows between the store of a table, in host memory or in a file, and the slots of its cache (hot_rows.h).
 *
 *   move    replace the row of a slot: write the old row to the store if it has changed, and read the new row
 *   pass    as many moves as the window has pages for:
 *
 *             start    wait for the previous pass's writes; read every page that holds a row of this pass
 *             finish   copy old rows, slot -> page; then new rows, page -> slot; write the changed pages
 *
 * A file is read and written in whole pages, which hold other rows too. So a pass reads a page before it changes a row
 * of it, and the window has each page once, for all rows of the pass. Between the two calls the disk reads while the
 * step computes. In host memory `finish` copies, and there is no window.
 *
 * What breaks: a new row is copied into a slot before its old row is copied out; a page is read while it is being
 * written. */
#pragma once

#include "lib/device/disk.h"

/* Rows of the table, by number; -1: none. */
struct hot_move { int64_t in, out, slot; };
/* The most moves of a pass, and the pages that they need. */
struct hot_window { int64_t moves, pages; };

struct hot_store {
    struct disk *disk;                   /* NULL: host memory */
    char *base, *slots;                  /* the store's first row, the cache's first slot */
    int64_t row_bytes;
    struct hot_window size;
    const struct hot_move *moves;        /* of the pass between start and finish; borrowed */
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

/** The caller sets the members up to `size`, and the window. @errors E_MEMORY */
enum status hot_store_create(struct hot_store *);
/** Waits for reads and writes in flight. */
void hot_store_destroy(struct hot_store *);

/** Start a pass. The caller keeps `moves` until hot_store_finish. No pass may be in flight. @errors E_IO */
enum status hot_store_start(struct hot_store *, const struct hot_move *moves, int64_t n);
/** Finish the pass. If no pass is in flight, return OK. @errors E_IO */
enum status hot_store_finish(struct hot_store *);
/** Wait until the file has all rows that passes wrote. @errors E_IO */
enum status hot_store_wait(struct hot_store *);
