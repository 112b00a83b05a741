/* Times of spans by the device's own clock: an event at each of their places, in the stream that does the work, read
 * when the steps are done. See trace_device.c. */
#pragma once

#include "lib/base/span.h"
#include "lib/device/device.h"

struct trace_device;

/** For a device that runs its stream asynchronously (device->mark_timed): from here on the recorder, which is
 *  borrowed, marks its spans there.  @errors E_MEMORY  @collective{none} */
enum status trace_device_create(const struct device *, struct spans *, struct trace_device **out);
void trace_device_destroy(struct trace_device **);

/** Before the first span, and after the last: what the host's clock says when the device's says what. Both wait for the
 *  compute stream. stop puts the device's times into all spans, on the host's clock, and the spans in the order in
 *  which they began.  @errors E_DEVICE, also of marking; E_MEMORY  @collective{none} */
enum status trace_device_start(struct trace_device *);
enum status trace_device_stop(struct trace_device *, struct spans *);

/** After stop: times are at most so far from the host's clock. */
double trace_device_uncertainty_s(const struct trace_device *);
