/* A table larger than memory. Its store is in host memory or in a file; a cache in device memory holds the rows in use.
 *
 *   place[row]    the slot that holds the row, or none               one for each row of the table
 *   owner[slot]   the row in the slot                                one for each slot of the cache
 *   home          row modulo slots: the slot that a row gets first (a direct-mapped cache). If another row of the
 *                 working set holds this slot, the row gets the next slot without a row of the working set. So the
 *                 cache needs as many slots as the working set has rows
 *
 * The working set is the rows that a microbatch looks up, and later the rows that a step's update changes. The cache
 * writes an evicted row back to the store if it has changed. Before a checkpoint reads the store, it writes back all
 * changed rows; before a checkpoint replaces the store, it drops all rows.
 *
 * Samples are a pure function of the step, so a run reads the ids of the next microbatch while this one computes. It
 * fetches as many of their rows as the window and the free slots allow, and the others when kernels need them. Neither
 * early fetches nor the size of the cache change a number: a row has the same bits in every slot.
 *
 * Stored where: the store in the param's tier; the cache, rows x D numbers, in device memory (array HOT_ROWS, role
 * param), with a place and rowwise Adagrad's state for every row of the table; the window of pages (hot_store.h) in
 * host memory, role work.
 *
 * What breaks: a row of the working set loses its slot; a changed row is evicted and not written; a row that was
 * fetched before its update is used after it.
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
