/* Spans: an activity of this process with its begin and end times, recorded in preallocated memory.
 *
 * A recorder is an array. Opening a span takes the next element and reads the clock; closing it reads the clock again.
 * Allocating, formatting and sending happen only in lib/trace/trace.h. Code that can be recorded holds a pointer to a
 * recorder, which is NULL while recording is off. With NULL, each function below costs one branch, which is always
 * predicted.
 *
 * Spans lie in the order in which they were opened. A span holds numbers (a step, a row) and no names; lib/trace looks
 * up the names when it writes the file. */
#pragma once

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum span_kind {
    SPAN_STEP,      /* a whole step of the run */
    SPAN_PHASE,     /* a phase of the step; what: enum run_phase (lib/run/run.h) */
    SPAN_ACTION,    /* an action of the schedule; what: enum action_kind. Of a send or receive also bytes, and in a
                     * gathered trace (lib/trace) id, row: the other end's rank along AXIS_PP, and its chunk */
    SPAN_FETCH,     /* in an action: getting the microbatch's tokens */
    SPAN_ROW,       /* in an action: a row; what: enum row_kind; id: the step of the program, or the param; row: its
                     * index in the tape */
    SPAN_COMM,      /* a collective of more than one rank; what: enum comm_op; axis: of its group; also count, bytes
                     * and wait_s */
    N_SPAN_KINDS
};

struct span {
    double start_s, end_s;       /* clock_s(); end_s 0: still open */
    double wait_s;               /* SPAN_COMM: clock_s() when this rank began to wait for it; 0: it did not wait */
    double bytes;                /* SPAN_COMM: as the ledger counts them (lib/comm/comm.h); of a message, of a copy */
    int32_t step;                /* of the run, from 0; -1: between steps */
    int32_t action, microbatch;  /* place in the schedule; -1: outside of the schedule */
    int32_t id, row;
    int32_t other;               /* SPAN_ROW: if two rows ran as one kernel, the second row's step; else -1 */
    int32_t count;               /* SPAN_COMM: elements, the call's argument */
    int16_t chunk;
    uint8_t kind, what, axis;
};

/* The places of a span that a device marks, because the host's times only tell when the host queued the work. */
enum span_place { SPAN_BEGINS, SPAN_WAITS, SPAN_ENDS, N_SPAN_PLACES };
/* Marks a place of a span in a stream of the device (NULL: the compute stream). A later mark of the same place replaces
 * the earlier mark. mark returns no error; the marker records it (lib/trace/trace_device.h). */
struct span_marker { void *self; void (*mark)(void *self, int span, enum span_place, void *stream); };

struct spans {
    int n, capacity;
    int64_t dropped;             /* spans dropped because the array was full */
    struct span now;             /* the template of new spans: step, action, microbatch, chunk */
    struct span *span;           /* [capacity] */
    int open_step, open_phase;   /* spans of the running step and of its phase */
    struct span_marker marker;   /* mark NULL: the host does the work, so its times are exact */
};

/** Allocate `capacity` spans and touch every page. @errors E_MEMORY  @collective{none} */
enum status spans_init(struct spans *, int64_t capacity);
void spans_fini(struct spans *);
/** Forget all spans; the memory stays allocated. */
void spans_clear(struct spans *);

static inline void span_mark(struct spans *s, int span, enum span_place place, void *stream) {
    if (s && span >= 0 && s->marker.mark) s->marker.mark(s->marker.self, span, place, stream);
}

/* New spans keep the step but belong to no action, microbatch or chunk. */
static inline void spans_outside(struct spans *s) {
    if (!s) return;
    int32_t step = s->now.step;
    memset(&s->now, 0, sizeof s->now);
    s->now.step = step;
    s->now.action = s->now.microbatch = s->now.other = s->now.chunk = -1;
}

/** @return the span's index, for span_close; -1: recording is off, or the array is full */
static inline int span_open_at(struct spans *s, enum span_kind kind, int what, double start_s) {
    if (!s) return -1;
    if (s->n == s->capacity) {
        s->dropped++;
        return -1;
    }
    struct span *x = &s->span[s->n];
    *x = s->now;
    x->kind = (uint8_t)kind;
    x->what = (uint8_t)what;
    x->start_s = start_s;
    if (s->marker.mark) {
        span_mark(s, s->n, SPAN_BEGINS, NULL);
        x->start_s = clock_s();                                      /* exclude the time of marking */
    }
    return s->n++;
}
static inline int span_open(struct spans *s, enum span_kind kind, int what) {
    return s ? span_open_at(s, kind, what, clock_s()) : -1;
}
static inline void span_close(struct spans *s, int span) {
    if (span >= 0) s->span[span].end_s = clock_s();
    span_mark(s, span, SPAN_ENDS, NULL);
}
static inline struct span *span_at(struct spans *s, int span) { return span >= 0 ? &s->span[span] : NULL; }
