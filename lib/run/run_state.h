/* Declarations shared by the files of a run: its memory and groups (run_open.c), samples (run_samples.c), events
 * (run_events.c), step (run_step.c) and the step's numbers (run_scalars.c). Private to them. */
#pragma once

#include "lib/run/run.h"

/* ---- run_samples.c ---- */
/* The executor's hook `fetch` of a run: read a microbatch's data, at the positions of a sequence that this rank holds.
 * @errors E_MEMORY, E_DATA, those of the model's sample */
enum status run_fetch(void *run, int microbatch, int32_t *const data[N_DATA]);
/* --data-ahead: the slots' bytes in host memory; start the thread; before a step, name its samples and the next ones.
 * @errors E_MEMORY */
int64_t run_ahead_bytes(const struct run *);
enum status run_open_ahead(struct run *, void *room);
void run_read_ahead(const struct run *);

/* ---- run_step.c ---- */
/* The executor's hook `settle` of a run: settle the step before this one (update.h). Then gradients may be written.
 * @collective{mesh} @errors those of update_settle */
enum status run_settle(void *run, bool *again);

/* ---- run_events.c ---- */
/* The executor's hook for a param's event, of a run: call the subscribers. The param's weight or gradient lies in
 * `buffer`; final: as in struct event.  @errors those of the subscribers */
enum status run_param_event(void *run, const struct param_event *);
/* Record spans (lib/base/span.h), if the run has a recorder: begin the step; end the phase and begin the next one; end
 * the step. */
void run_record_step(struct run *);
void run_enter(struct run *, enum run_phase);
void run_record_end(struct run *);

/* A copy of the state before an update: own weights, both moments and the master copy (role optim). Restoring the
 * copy undoes a wrong update to the bit. */

/** Add the copy's arrays to the params, before memory_plan_params. @errors E_INTERNAL  @collective{none} */
enum status shadow_add(struct program *);
/** Copy the state, before the update. @collective{none} @errors E_DEVICE */
enum status shadow_take(struct run *);
/** Restore the state. Other ranks' copies of own weights (ZeRO) are corrected when they are published again.
 *  @collective{none} @errors E_DEVICE */
enum status shadow_restore(struct run *);
