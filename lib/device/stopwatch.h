/* How long pieces of the compute stream take, without waiting for them: an event before each and one after it, read
 * when both have passed. Two events cost the stream about a microsecond; they are there only where somebody asks for
 * the times. */
#pragma once

#include "lib/device/device.h"

struct stopwatch;

/** For a device that runs its stream asynchronously (device->mark_timed). @errors E_MEMORY */
enum status stopwatch_create(const struct device *, struct stopwatch **out);
/** Waits for nothing: what was not collected is forgotten. NULL: none. */
void stopwatch_destroy(struct stopwatch **);

/** A piece begins, and ends, here in the stream. Its time is added to *seconds (borrowed until it is collected) by a
 *  later stopwatch_collect. One piece at a time. @errors E_DEVICE */
enum status stopwatch_start(struct stopwatch *);
enum status stopwatch_stop(struct stopwatch *, double *seconds);
/** Add the times of all pieces that have ended. Does not wait. @errors E_DEVICE */
enum status stopwatch_collect(struct stopwatch *);
