/* The end of a step: two sums over all ranks, and the update.
 *
 *   loss      = sum over the mesh of the losses of the step's microbatches
 *   norm^2    = sum over the mesh of the squares of its gradients
 *   factor    = min(1, clip / (norm + 1e-6))        gradients are multiplied by it; NaN: no weight changes
 *
 * A sum over all ranks makes every rank wait for the last rank. The stages of a pipeline end a step one after the
 * other, and could begin the next step in the same order; a sum in between makes all stages wait. The three ways are:
 *
 *   awaited   both sums, then the update.
 *   guessed   (--optim-sync validate) the state is copied (shadow.c), and the update is done at once with factor 1. The
 *             sums arrive while the next step's first forwards run. The step is settled after these forwards, and
 *             before the first backward, which writes gradients. If the factor is not 1, the copy is restored, the
 *             update is done with the right factor, and the forwards, which have read wrong weights, run again
 *             (schedule.h: n_early). Every rank has the same factor, so all ranks repeat the forwards or none. The
 *             weights have the same bits as with awaited sums.
 *   unasked   (schedules without a flush, clip 0) the update is done at once; its factor is always 1.
 *
 * A right guess costs the copy of 3 or 4 own arrays. A wrong guess also costs a second update and the early forwards.
 * If the norm is above clip in every step, awaiting is faster: n_redone counts wrong guesses.
 *
 * What breaks: taking the copy after the update; not restoring the moments; not running the forwards again; receiving
 * the message of a discarded forward in place of the repeated forward's.
 *
 * Source: Qi et al. 2023, "Zero bubble pipeline parallelism", section 4. There a stage guesses from the squares of the
 * stages before it. That saves no forward: the first stage has only its own squares, and if its guess is wrong, all
 * activations that it has sent are wrong, too. */
#pragma once

#include "lib/run/run.h"

/** Start the sum of the running step's loss; if steps do not overlap, also wait for it. @collective{mesh}
 *  @errors E_DEVICE, E_TIMEOUT, E_COMM */
enum status update_sum_loss(struct run *, struct step_record *);
/** Compute the norm and the factor, update, and publish the changed weights. The own gradients must be complete: summed
 *  over all replicas. @collective{mesh} @errors E_MEMORY, E_DEVICE, E_TIMEOUT, E_COMM */
enum status update_begin(struct run *, struct step_record *);
/** Wait for the sums in flight, correct a wrong guess (then *again is true), and start the copy of the numbers to the
 *  host. Does nothing for a settled step. @collective{mesh} @errors as update_begin */
enum status update_settle(struct run *, struct step_record *, bool *again);
