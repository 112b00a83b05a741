/* A table that is not all here: its store is in host memory or in a file, and a cache has the rows that are in use.
 *
 *   place[row]    the slot that has it, or none                      every row of the table
 *   owner[slot]   the row that is in it                              every slot of the cache
 *   home          of a row, the slot row modulo slots: a direct-mapped cache. If a row that is wanted at the same time
 *                 has it, the next slot that none of those has; so as many slots as rows that are wanted at a time are
 *                 enough
 *
 * Wanted at a time are the rows that a microbatch looks up, and then those that an update changes, of a whole step. A
 * row that makes room goes back to the store if it has changed. A reader of the store (a checkpoint) has all rows
 * written back first; a writer has all of them dropped.
 *
 * Samples are a pure function of the step, so the rows of the next microbatch are known while this one computes. They
 * are fetched meanwhile, as many as the window and the free slots allow; the rest is fetched when it is wanted. What
 * is fetched early changes no number, nor does the size of the cache: a row is the same bits wherever it lies.
 *
 * Stored where: the store in the param's tier; the cache, rows x D numbers (the array HOT_ROWS), in the device's
 * memory, role param; place and what rowwise Adagrad keeps, a number a row each, in the device's memory, too: they are
 * 1/D of the table; the window of pages (hot_store.h) in host memory, role work.
 *
 * What breaks: a slot taken from a row that is wanted now; a row that goes out unwritten; a row that was fetched before
 * its update, and is used after it.
 *
 * Source: Mudigere et al. 2022, section 4.1.3 (rows cached in device memory); FBGEMM's TBE with UVM_CACHING. */
#ifndef TRIVIUM_RUN_HOT_ROWS_H
#define TRIVIUM_RUN_HOT_ROWS_H

#include "lib/ops/rec/rows.h"
#include "lib/run/run.h"

struct hot_rows;

/** Rows of the table's cache; 0: it has none. Pure. */
int64_t hot_rows_of(const struct param *);
/** Rows of a table that a step names on this rank, at most: of n_microbatches. Pure. */
int64_t hot_rows_of_step(const struct program *, int param, int n_microbatches);
/** Bytes of the tables above; and of the window, host memory. 0: no param has a cache. After memory_plan_params.
 *  window_bytes: of a table's window at most. Pure. */
int64_t hot_rows_work(const struct program *);
int64_t hot_rows_window(const struct program *, int64_t window_bytes);

/** work: hot_rows_work bytes; window: where its pages begin in the host's work arena. *out NULL: no caches.
 *  @errors E_MEMORY, E_DEVICE  @collective{none} */
enum status hot_rows_create(struct run *, void *work, struct hot_rows **out);
void hot_rows_destroy(struct hot_rows **);

/** All rows that these ids name, int32 (P,F,B,M) of a microbatch, are in their slots on return. Others may have lost
 *  theirs. @collective{none} @errors E_IO */
enum status hot_rows_need(struct run *, const int32_t *ids);
/** The same of the rows of one table, which will be changed: of occurrences, sorted. @errors E_IO */
enum status hot_rows_need_to_update(struct run *, const struct param *, const struct rows *);
/** Begin to fetch the rows that ids name, as above, which the next hot_rows_need will ask for; the last one's stay.
 *  @collective{none} @errors E_IO */
enum status hot_rows_ahead(struct run *, const int32_t *ids);
/** Room for the ids of one microbatch; NULL: there are no caches, and nothing to do ahead. */
int32_t *hot_rows_next_ids(const struct run *);

/** The store has everything. @collective{none} @errors E_IO */
enum status hot_rows_write_back(struct run *);
/** No row is here any more: the store is about to change. @collective{none} @errors E_IO */
enum status hot_rows_forget(struct run *);

/* Since the run was created, over all tables: rows that were wanted, each once a time; of them those that had to be
 * fetched, and of those that were begun ahead; rows that were written back. */
struct hot_traffic { int64_t wanted, fetched, ahead, written; };
struct hot_traffic hot_rows_traffic(const struct run *);

#endif
