/* What a trace is made of. Private to trace*.c. */
#ifndef TRIVIUM_TRACE_TRACE_STATE_H
#define TRIVIUM_TRACE_TRACE_STATE_H

#include "lib/trace/memory_timeline.h"
#include "lib/trace/trace.h"
#include "lib/trace/trace_clock.h"

struct trace {
    struct run *run;
    struct spans spans;
    struct memory_timeline timeline;
    struct clock_offset before, after;   /* recording, to rank 0 of the mesh */
    int64_t n_steps, first_step;         /* room for; the first that was recorded */
    bool recording;
};

#endif
