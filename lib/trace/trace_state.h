/* The state of a trace. Private to trace*.c. */
#pragma once

#include "lib/trace/memory_timeline.h"
#include "lib/trace/trace.h"
#include "lib/trace/trace_clock.h"
#include "lib/trace/trace_device.h"

struct trace {
    struct run *run;
    struct spans spans;
    struct memory_timeline timeline;
    struct clock_offset before, after;   /* the offsets to rank 0 of the mesh before and after recording */
    struct trace_device *device;         /* NULL: the host does the work, so its times are exact */
    int64_t n_steps, first_step;         /* the number of steps that fit; the first recorded step */
    bool recording;
};

/* ---- trace_names.c ---- */
/* Fill the names of the run's program, their text and counts; zero the other fields. Call trace_names_fini even after
 * an error. @errors E_MEMORY */
enum status trace_names_of(const struct run *, struct trace_rank *out);
/* Point names[] into an existing text. @errors E_MEMORY */
enum status trace_names_find(struct trace_rank *);
void trace_names_fini(struct trace_rank *);
