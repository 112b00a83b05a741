/* What a trace is made of. Private to trace*.c. */
#ifndef TRIVIUM_TRACE_TRACE_STATE_H
#define TRIVIUM_TRACE_TRACE_STATE_H

#include "lib/trace/memory_timeline.h"
#include "lib/trace/trace.h"
#include "lib/trace/trace_clock.h"
#include "lib/trace/trace_device.h"

struct trace {
    struct run *run;
    struct spans spans;
    struct memory_timeline timeline;
    struct clock_offset before, after;   /* recording, to rank 0 of the mesh */
    struct trace_device *device;         /* NULL: the host's times are the work's */
    int64_t n_steps, first_step;         /* room for; the first that was recorded */
    bool recording;
};

#endif
