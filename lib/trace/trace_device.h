/* Times of spans by the device's own clock. An event marks each place of a span in the stream that does the work; the
 * events are read when the steps are done. See trace_device.c. */
#pragma once

#include "lib/base/span.h"
#include "lib/device/device.h"

struct trace_device;

/** Make the recorder (borrowed) mark its spans on the device from now on. The device must run its streams
 *  asynchronously (device->mark_timed).  @errors E_MEMORY  @collective{none} */
enum status trace_device_create(const struct device *, struct spans *, struct trace_device **out);
void trace_device_destroy(struct trace_device **);

/** Measure the device's clock against the host's: start before the first span, stop after the last. Both wait for the
 *  compute stream. trace_device_stop then replaces the spans' times by the device's, converted to the host's clock, and
 *  sorts the spans by start time.  @errors E_DEVICE, also for a failed mark; E_MEMORY  @collective{none} */
enum status trace_device_start(struct trace_device *);
enum status trace_device_stop(struct trace_device *, struct spans *);

/** The largest error of a time on the host's clock. Call after stop. */
double trace_device_uncertainty_s(const struct trace_device *);
