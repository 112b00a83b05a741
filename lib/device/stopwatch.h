/* Measures pieces of the compute stream without waiting for them: an event before each piece and one after it, read
 * when both have passed. Two events cost the stream about a microsecond; they are only recorded if times are asked
 * for. */
#pragma once

#include "lib/device/device.h"

struct stopwatch;

/** For a device that runs its stream asynchronously (device->mark_timed). @errors E_MEMORY */
enum status stopwatch_create(const struct device *, struct stopwatch **out);
/** Destroy without waiting; times that were not collected are lost. NULL: nothing to do. */
void stopwatch_destroy(struct stopwatch **);

/** Begin, or end, a piece of work at the stream's present end. A later stopwatch_collect adds the piece's time to
 *  *seconds (borrowed until then). One piece at a time. @errors E_DEVICE */
enum status stopwatch_start(struct stopwatch *);
enum status stopwatch_stop(struct stopwatch *, double *seconds);
/** Add the times of all pieces that have ended. Does not wait. @errors E_DEVICE */
enum status stopwatch_collect(struct stopwatch *);
