/* Versions of the weights, for schedules without a flush.
 *
 * Between two flushes a stage that has updated its weights still gets gradients of microbatches whose forwards read
 * older weights. So a stage keeps n versions of its weights; version v, counted from the last flush, is in slot v mod
 * n. An action reads the version that is `age` updates old (schedule.h). The update of step u writes version u + 1 over
 * version u + 1 - n, which no later action reads.
 *
 * At a flush the pipeline is empty, and the newest version is the only one. So checkpoints, evaluation and another
 * layout find ordinary weights. A flush changes the numbers of an asynchronous run, because the first microbatches
 * after it read fresh weights. So the time of the flush is a setting of the training: run.flush_at. */
#pragma once

#include "lib/run/run.h"

/** Call before a step's first action: sets the number of microbatches that may begin; after a flush, copies the newest
 *  weights to all versions. @errors E_DEVICE */
enum status versions_begin_step(struct run *);
/** Call before the update: copies the newest version to the slot that the update changes. @errors E_DEVICE */
enum status versions_begin_update(struct run *);
/** Call after the update: counts the step, or ends a flush. @errors E_DEVICE */
enum status versions_end_step(struct run *);

/** The number of updates from now after which every rank's pipeline can be empty. Pure. */
int64_t versions_steps_to_flush(const struct run *);
