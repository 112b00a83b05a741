/* Versions of the weights, for schedules without a flush.
 *
 * Between two flushes ranks are at different microbatches at one time: a stage that has updated still gets gradients of
 * microbatches whose forwards read older weights. So it keeps n versions side by side, version v in slot v mod n,
 * counted from the last flush. An action reads the version that is `age` updates old (schedule.h); the update of step u
 * writes version u + 1 over version u + 1 - n, which no action reads any more.
 *
 * At a flush the pipeline is empty and everything is the newest: then checkpoints, evaluation and another layout find
 * ordinary weights. A flush changes the numbers of an asynchronous run (the first microbatches after it read fresh
 * weights), so it is part of what is trained: run.flush_at. */
#pragma once

#include "lib/run/run.h"

/** Before a step's first action: set the number of microbatches that may begin; after a flush, copy the newest weights
 *  to all versions. @errors E_DEVICE */
enum status versions_begin_step(struct run *);
/** Before its update: the next version begins as a copy of the newest. @errors E_DEVICE */
enum status versions_begin_update(struct run *);
/** After its update: the step is counted, or flushed. @errors E_DEVICE */
enum status versions_end_step(struct run *);

/** The number of updates from now after which every rank's pipeline can be empty. Pure. */
int64_t versions_steps_to_flush(const struct run *);
