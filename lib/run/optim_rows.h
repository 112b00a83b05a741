/* The update of tables: of the rows that a step used, and of no others (lib/ops/rec/rows.h).
 *
 *   step n ends     its records are sorted, and the squares of its coalesced gradient join the norm
 *   its update      those of step n - delay, with the factor that step n - delay's own norm decided
 *
 * So step n reads tables that have the updates of steps up to n - 1 - delay: Persia's hybrid, whose tables are allowed
 * to be late, while the dense part is in time. delay 0 is the synchronous run. Nothing depends on speed: a delay gives
 * the same numbers in every layout.
 *
 * Stored where: records of delay + 1 steps in the gradient arena; an index in the run's part of the work arena. What
 * waits is no part of a checkpoint: before one is written it is applied (optim_rows_settle), so that the numbers of
 * later steps depend on when that is.
 *
 * Source: Lian et al. 2021, "Persia". */
#ifndef TRIVIUM_RUN_OPTIM_ROWS_H
#define TRIVIUM_RUN_OPTIM_ROWS_H

#include "lib/run/run.h"

struct optim_rows;
enum { ROWS_MAX_DELAY = 64 };

/** Bytes of the index of all tables; 0: there are none. After memory_plan_params. Pure. */
int64_t optim_rows_work(const struct program *);
/** `work`: memory of that number of bytes. *out NULL: no tables. @errors E_MEMORY  @collective{none} */
enum status optim_rows_create(const struct run *, void *work, struct optim_rows **out);
void optim_rows_destroy(struct optim_rows **);

/** Add the squares of this step's coalesced gradients to *sum. @collective{none} @errors those of rows_squares */
enum status optim_rows_squares(const struct run *, double *sum);
/** The step is decided: its update waits now, and what has waited for `delay` steps is applied.
 *  @collective{none} @errors those of rows_update */
enum status optim_rows_step(struct run *, const struct step_record *);
/** Apply everything that waits, in order; then tables are whole where a checkpoint reads them. @collective{none}
 *  @errors those of rows_update, E_IO */
enum status optim_rows_settle(struct run *);
/** Nothing waits any more, and no row is cached: the run goes on from another state. @collective{none} @errors E_IO */
enum status optim_rows_forget(struct run *);

#endif
