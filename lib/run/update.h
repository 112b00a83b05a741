/* The end of a step: two sums over all ranks, and the update.
 *
 *   loss      = sum over the mesh of the losses of the step's microbatches
 *   norm^2    = sum over the mesh of the squares of its gradients
 *   factor    = min(1, clip / (norm + 1e-6))        gradients are multiplied by it; NaN: no weight changes
 *
 * A rank that waits for a sum over all ranks waits for the last of them. Stages of a pipeline end a step one after the
 * other, and could begin the next one in that order; a sum in between makes them all wait. So there are three ways:
 *
 *   awaited   both sums, then the update.
 *   guessed   (--optim-sync validate) the state is copied (shadow.h), and the update is done at once with factor 1. The
 *             sums arrive while the next step's first forwards run. After those, and before the first backward, which
 *             writes gradients, the step is settled. If the factor is not 1, the copy is restored, the update is done
 *             with the right factor, and the forwards, which have read wrong weights, run again (schedule.h: n_early).
 *             Every rank has the same factor, so all begin again or none. Weights have the same bits as when the sums
 *             are awaited.
 *   unasked   (schedules without a flush, clip 0) the update is done at once; its factor is 1 whatever the norm.
 *
 * A right guess costs the copy of 3 or 4 own arrays. A wrong one costs a second update and the early forwards, too. If
 * the norm is above clip in every step, awaiting is faster: n_redone counts wrong guesses.
 *
 * What breaks: the copy taken after the update; moments not restored; the forwards not run again; a message of a
 * dropped forward that is taken for the message of its repetition.
 *
 * Source: Qi et al. 2023, "Zero bubble pipeline parallelism", section 4. There a stage guesses from the squares of the
 * stages before it. That saves no forward: the first stage has only its own squares, and if its guess is wrong, so is
 * all that the other stages received from it. */
#pragma once

#include "lib/run/run.h"

/** Start the sum of the running step's loss, from this rank's scalars; awaited, or left in flight. @collective{mesh}
 *  @errors E_DEVICE, E_TIMEOUT, E_COMM */
enum status update_sum_loss(struct run *, struct step_record *);
/** Gradients are complete, own elements summed over all replicas: norm, clipping, update, and publishing what changed.
 *  @collective{mesh} @errors E_MEMORY, E_DEVICE, E_TIMEOUT, E_COMM */
enum status update_begin(struct run *, struct step_record *);
/** Wait for the sums in flight; correct a wrong guess (*again), and start the copy of the numbers to the host. OK at
 *  once for a step that is settled. @collective{mesh} @errors as update_begin */
enum status update_settle(struct run *, struct step_record *, bool *again);
