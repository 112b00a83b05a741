/* What a trace is made of. Private to trace*.c. */
#pragma once

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

/* ---- trace_names.c ---- */
/* The names of the run's program, its counts and their text, all else zero; free them, also after an error.
 * @errors E_MEMORY */
enum status trace_names_of(const struct run *, struct trace_rank *out);
/* Where in text, which is there, is which name? @errors E_MEMORY */
enum status trace_names_find(struct trace_rank *);
void trace_names_fini(struct trace_rank *);
