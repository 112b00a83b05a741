/* The update of tables: it changes only the rows that a step used (lib/ops/rec/rows.h).
 *
 *   step n ends     its records are sorted, and the squares of its coalesced gradient join the norm
 *   its update      the records of step n - delay, with the clip factor of step n - delay
 *
 * So step n reads tables with the updates of steps up to n - 1 - delay. This is Persia's hybrid: tables may be late,
 * and the dense part is in time. delay 0 is the synchronous run. Timing changes no number: a delay gives
 * the same numbers in every layout.
 *
 * Stored where: records of delay + 1 steps in the gradient arena; an index in the run's part of the work arena. A
 * checkpoint has no waiting records: they are applied before it is written (optim_rows_settle). So the numbers of later
 * steps depend on the steps at which checkpoints are written.
 *
 * Source: Lian et al. 2021, "Persia". */
#pragma once

#include "lib/rows/hot_rows.h"

struct optim_rows;
enum { ROWS_MAX_DELAY = 64 };

/** Bytes of the index of all tables; 0: there are none. After memory_plan_params. Pure. */
int64_t optim_rows_work(const struct program *);
/** `work`: memory of that number of bytes; hot: the tables' caches, or NULL. Both are borrowed. *out NULL: no tables;
 *  the functions below take NULL. @errors E_MEMORY  @collective{none} */
enum status optim_rows_create(const struct run *, void *work, struct hot_rows *hot, struct optim_rows **out);
void optim_rows_destroy(struct optim_rows **);

/** Add the squares of this step's coalesced gradients to *sum. @collective{none} @errors those of rows_squares */
enum status optim_rows_squares(struct optim_rows *, int64_t step, double *sum);
/** Store a step's factor and rate with its records, which then wait; apply the records that have waited for `delay`
 *  steps. factor NaN: the step's records change nothing.  @collective{none} @errors those of rows_update, E_IO */
enum status optim_rows_step(struct optim_rows *, int64_t step, double lr, double factor);
/** Apply all waiting records, in order. @collective{none} @errors those of rows_update, E_IO */
enum status optim_rows_settle(struct optim_rows *);
/** Drop all waiting records, because another state is loaded. @collective{none} */
void optim_rows_forget(struct optim_rows *);
