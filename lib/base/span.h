/* Spans: what this process did from when to when, written into memory that was allocated before.
 *
 * A recorder is an array. Opening a span takes the next element and reads the clock, closing it reads the clock again;
 * nothing is allocated, formatted or sent until somebody asks (lib/trace/trace.h). Code that can be recorded holds a
 * pointer to a recorder, NULL when nothing is recorded: then each function below is one branch that is always taken
 * the same way.
 *
 * Spans lie in the order in which they were opened. Only the code that opens and reads an element gives it a meaning
 * (whose step, which row), so there are numbers here and no names: names are made when the file is written. */
#pragma once

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum span_kind {
    SPAN_STEP,      /* a whole step of the run */
    SPAN_PHASE,     /* a part of it; what: enum run_phase (lib/run/run.h) */
    SPAN_ACTION,    /* an action of the schedule; what: enum action_kind; bytes: of the message of a send or receive */
    SPAN_FETCH,     /* in an action: getting the microbatch's tokens */
    SPAN_ROW,       /* in an action: a row; what: enum row_kind; id: the step of the program, or the param; row: where
                     * in its tape */
    SPAN_COMM,      /* a collective of more than one rank; what: enum comm_op; axis: whose group; count, bytes;
                     * wait_s */
    N_SPAN_KINDS
};

struct span {
    double start_s, end_s;       /* clock_s(); end_s 0: still open */
    double wait_s;               /* SPAN_COMM: when this rank began to wait for it; 0: it never did */
    double bytes;                /* SPAN_COMM: as the ledger counts them (lib/comm/comm.h) */
    int32_t step;                /* of the run, from 0; -1: between steps */
    int32_t action, microbatch;  /* place in the schedule; -1: outside of the schedule */
    int32_t id, row;
    int32_t other;               /* SPAN_ROW: two rows that ran as one kernel: the second's step; else -1 */
    int32_t count;               /* SPAN_COMM: elements, as the call said them */
    int16_t chunk;
    uint8_t kind, what, axis;
};

/* The places of a span that a device has to mark, where the host's times are only those of queueing. */
enum span_place { SPAN_BEGINS, SPAN_WAITS, SPAN_ENDS, N_SPAN_PLACES };
/* Marks a place of a span in a stream of the device, NULL: its compute stream; a later mark of the place counts instead
 * of an earlier one. Cannot fail here: it notes why (lib/trace/trace_device.h). */
struct span_marker { void *self; void (*mark)(void *self, int span, enum span_place, void *stream); };

struct spans {
    int n, capacity;
    int64_t dropped;             /* spans for which there was no room left */
    struct span now;             /* what new spans begin as: step, action, microbatch, chunk */
    struct span *span;           /* [capacity] */
    int open_step, open_phase;   /* those of the step that runs */
    struct span_marker marker;   /* mark NULL: the host's times are the work's */
};

/** Room for `capacity` spans, every page of it touched. @errors E_MEMORY  @collective{none} */
enum status spans_init(struct spans *, int64_t capacity);
void spans_fini(struct spans *);
/** Forget all spans; the room stays. */
void spans_clear(struct spans *);

static inline void span_mark(struct spans *s, int span, enum span_place place, void *stream) {
    if (s && span >= 0 && s->marker.mark) s->marker.mark(s->marker.self, span, place, stream);
}

/* From here on: where no context is said. */
static inline void spans_outside(struct spans *s) {
    if (!s) return;
    int32_t step = s->now.step;
    memset(&s->now, 0, sizeof s->now);
    s->now.step = step;
    s->now.action = s->now.microbatch = s->now.other = s->now.chunk = -1;
}

/** @return the span's index, to close it with; -1: nothing is recorded, or there is no room */
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
        x->start_s = clock_s();                                      /* marking takes time, too */
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
