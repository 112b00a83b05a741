/* A table larger than memory: its store is in host memory or in a file, and a cache has the rows that are in use.
 *
 *   place[row]    the slot that has it, or none                      every row of the table
 *   owner[slot]   the row that is in it                              every slot of the cache
 *   home          of a row, the slot row modulo slots: a direct-mapped cache. If another row of the working set has it,
 *                 the row gets the next slot that the working set leaves free; so the cache needs as many slots as the
 *                 working set has rows
 *
 * The working set: first the rows that a microbatch looks up, later the rows that the update of a step changes. An
 * evicted row goes back to the store if it has changed. Before a reader of the store (a checkpoint) all rows are
 * written back; before a writer all are dropped.
 *
 * Samples are a pure function of the step, so the rows of the next microbatch are known while this one computes. They
 * are fetched meanwhile, as many as the window and the free slots allow; the others when they are needed. Neither early
 * fetches nor the size of the cache change a number: a row has the same bits in every slot.
 *
 * Stored where: the store in the param's tier. In the device's memory the cache, rows x D numbers (the array HOT_ROWS,
 * role param), and for every row of the table its place and rowwise Adagrad's state, a number each: 1/D of the table.
 * The window of pages (hot_store.h) is in host memory, role work.
 *
 * What breaks: a slot taken from a row of the working set; a changed row evicted without a write; a row that was
 * fetched before its update, and is used after it.
 *
 * Source: Mudigere et al. 2022, section 4.1.3 (rows cached in device memory); FBGEMM's TBE with UVM_CACHING. */
#pragma once

#include "lib/ops/rec/rows.h"
#include "lib/run/run.h"

struct hot_rows;

/** Rows of the table's cache; 0: it has none. Pure. */
int64_t hot_rows_of(const struct param *);
/** The most rows of a table that a step of n_microbatches names on this rank. Pure. */
int64_t hot_rows_of_step(const struct program *, int param, int n_microbatches);
/** Bytes of the tables above; and bytes of the window, in host memory. 0: no param has a cache. After
 *  memory_plan_params. window_bytes: the limit of one table's window. Pure. */
int64_t hot_rows_work(const struct program *);
int64_t hot_rows_window(const struct program *, int64_t window_bytes);

/** work: hot_rows_work bytes; window: hot_rows_window bytes from the start of a page. Both are borrowed. *out NULL: no
 *  caches; the functions below take NULL.
 *  @errors E_MEMORY, E_DEVICE  @collective{none} */
enum status hot_rows_create(struct run *, void *work, void *window, struct hot_rows **out);
void hot_rows_destroy(struct hot_rows **);

/** Bring the rows of these ids, int32 (P,F,B,M) of a microbatch, into their slots. Other rows may be evicted.
 *  @collective{none} @errors E_IO */
enum status hot_rows_need(struct hot_rows *, const int32_t *ids);
/** The same for rows of one table that an update will change. rows: sorted occurrences. @errors E_IO */
enum status hot_rows_need_to_update(struct hot_rows *, const struct param *, const struct rows *);
/** Begin to fetch the rows of the ids of the next hot_rows_need; those of the last one stay.
 *  @collective{none} @errors E_IO */
enum status hot_rows_ahead(struct hot_rows *, const int32_t *ids);
/** Room for the ids of one microbatch; NULL: there are no caches, and nothing to fetch ahead. */
int32_t *hot_rows_next_ids(const struct hot_rows *);

/** Write all changed rows to the store. @collective{none} @errors E_IO */
enum status hot_rows_write_back(struct hot_rows *);
/** Empty the cache: the store is about to change. @collective{none} @errors E_IO */
enum status hot_rows_forget(struct hot_rows *);

/* Counts since the caches were created, over all tables. wanted: rows that microbatches use, each once per microbatch;
 * fetched: those of them that were read from the store; ahead: reads that began early; written: rows that were written
 * back. */
struct hot_traffic { int64_t wanted, fetched, ahead, written; };
struct hot_traffic hot_rows_traffic(const struct hot_rows *);
