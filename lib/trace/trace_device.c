/* A GPU's times in a trace.
 *
 * Idea: the host records the order of spans, and the GPU records their times. Where a span begins, waits or ends, the
 * host queues a timed event into the stream that does the work: the compute stream, or a transport's own. No code waits
 * for these events. After the traced steps, the device's times are read and replace the host's times of the spans.
 *
 * One clock: a GPU only tells the time between two events. So before the first traced step and after the last, the host
 * queues an event, waits for it, and times the wait with its own clock. It repeats this and keeps the shortest wait:
 *
 *   sent <= event <= back      host time of the event = (sent + back) / 2,    |error| <= (back - sent) / 2
 *
 * A line through the two measurements converts times, as for the clocks of two ranks (trace_clock.c).
 *
 * What breaks: reading an event that is still in flight, such as that of a collective for which the next step waits.
 * Also the order of spans: a collective in its own stream can begin later than rows that were queued after it. */
#include "lib/trace/trace_device.h"

#include "lib/comm/comm.h"
#include "lib/trace/trace_state.h"
#include <stdio.h>
#include <stdlib.h>

enum { PINGS = 32 };

struct trace_device {
    const struct device *device;
    struct device_mark *marks[N_SPAN_PLACES];    /* [capacity] for each place; created when first marked */
    uint8_t *marked;                             /* [capacity]: a bit for each place that is marked */
    int capacity;
    struct device_mark origin, ping;             /* device times are seconds since origin */
    struct clock_offset before, after;           /* the host's clock minus the device's; at_s is a device time */
    enum status failure;                         /* status of the first mark that could not be set; OK: none */
    char why[512];                               /* its message */
};

/* ---- marking ---- */
static void note(struct trace_device *t, enum status status) {
    if (status == OK) return;
    if (t->failure == OK) snprintf(t->why, sizeof t->why, "%s", status_message());
    if (t->failure == OK) t->failure = status;
    status_clear();
}

/* A new span may reuse the index of a dropped one, so SPAN_BEGINS clears the marks of the old span. */
static void mark(void *self, int span, enum span_place place, void *stream) {
    struct trace_device *t = self;
    if (place == SPAN_BEGINS) t->marked[span] = 0;
    t->marked[span] |= (uint8_t)(1u << place);
    note(t, t->device->mark_timed(t->device, stream, &t->marks[place][span]));
}

enum status trace_device_create(const struct device *device, struct spans *spans, struct trace_device **out) {
    struct trace_device *t = *out = calloc(1, sizeof *t);
    if (!t) return FAIL(E_MEMORY, "no memory for a trace");
    size_t n = (size_t)spans->capacity + 1;
    t->device = device;
    t->capacity = spans->capacity;
    t->marked = calloc(n, sizeof *t->marked);
    bool fine = t->marked;
    for (int place = 0; place < N_SPAN_PLACES; place++)
        fine &= (t->marks[place] = calloc(n, sizeof **t->marks)) != NULL;
    if (!fine) {
        trace_device_destroy(out);
        return FAIL(E_MEMORY, "no memory for the events of %zu spans; record fewer steps", n);
    }
    spans->marker = (struct span_marker){t, mark};
    return OK;
}

void trace_device_destroy(struct trace_device **out) {
    struct trace_device *t = *out;
    *out = NULL;
    if (!t) return;
    for (int place = 0; place < N_SPAN_PLACES; place++) {
        for (int i = 0; t->marks[place] && i < t->capacity; i++) t->device->mark_fini(t->device, &t->marks[place][i]);
        free(t->marks[place]);
    }
    t->device->mark_fini(t->device, &t->origin);
    t->device->mark_fini(t->device, &t->ping);
    free(t->marked);
    free(t);
}

/* ---- one clock ---- */
static enum status device_s(const struct trace_device *t, const struct device_mark *mark, double *seconds) {
    return t->device->mark_seconds(t->device, &t->origin, mark, seconds);
}

static enum status measure(struct trace_device *t, struct clock_offset *best) {
    for (int i = 0; i < PINGS; i++) {
        double sent_s = clock_s(), back_s, there_s;
        TRY(t->device->mark_timed(t->device, NULL, &t->ping));
        TRY(t->device->finish(t->device));
        back_s = clock_s();
        TRY(device_s(t, &t->ping, &there_s));
        if (i > 0 && (back_s - sent_s) / 2 >= best->uncertainty_s) continue;
        *best = (struct clock_offset){.at_s = there_s, .offset_s = (sent_s + back_s) / 2 - there_s,
                                      .uncertainty_s = (back_s - sent_s) / 2};
    }
    return OK;
}

enum status trace_device_start(struct trace_device *t) {
    TRY(t->device->mark_timed(t->device, NULL, &t->origin));
    TRY(comm_wait_queued(t->device, "the step before a trace"));
    return measure(t, &t->before);
}

double trace_device_uncertainty_s(const struct trace_device *t) {
    double before_s = t->before.uncertainty_s, after_s = t->after.uncertainty_s;
    return before_s > after_s ? before_s : after_s;
}

/* ---- reading ---- */
static enum status read_place(const struct trace_device *t, int span, enum span_place place, double *time_s) {
    if (!(t->marked[span] >> place & 1)) return OK;
    TRY(comm_wait_device(&t->marks[place][span], "a traced step"));
    TRY(device_s(t, &t->marks[place][span], time_s));
    *time_s = clock_at_rank_0(&t->before, &t->after, *time_s);
    return OK;
}

/* If a collective ended before the compute stream waited for it, the wait took no time: wait_s becomes end_s. */
static enum status read_span(const struct trace_device *t, int i, struct span *s) {
    TRY(read_place(t, i, SPAN_BEGINS, &s->start_s));
    TRY(read_place(t, i, SPAN_ENDS, &s->end_s));
    TRY(read_place(t, i, SPAN_WAITS, &s->wait_s));
    if (s->end_s < s->start_s) s->end_s = s->start_s;
    if (s->wait_s > s->end_s) s->wait_s = s->end_s;
    if (s->wait_s != 0 && s->wait_s < s->start_s) s->wait_s = s->start_s;
    return OK;
}

struct start { double at_s; int span; };
static int by_start(const void *a, const void *b) {
    const struct start *x = a, *y = b;
    return x->at_s != y->at_s ? (x->at_s > y->at_s) - (x->at_s < y->at_s) : x->span - y->span;
}

static enum status sort_spans(struct spans *s) {
    struct start *starts = malloc(((size_t)s->n + 1) * sizeof *starts);
    struct span *sorted = malloc(((size_t)s->n + 1) * sizeof *sorted);
    bool fine = starts && sorted;
    for (int i = 0; i < s->n && fine; i++) starts[i] = (struct start){s->span[i].start_s, i};
    if (fine) qsort(starts, (size_t)s->n, sizeof *starts, by_start);
    for (int i = 0; i < s->n && fine; i++) sorted[i] = s->span[starts[i].span];
    if (fine) memcpy(s->span, sorted, (size_t)s->n * sizeof *sorted);
    free(starts);
    free(sorted);
    return fine ? OK : FAIL(E_MEMORY, "no memory to order %d spans; record fewer steps", s->n);
}

enum status trace_device_stop(struct trace_device *t, struct spans *s) {
    if (t->failure != OK) return FAIL(t->failure, "%s", t->why);
    TRY(comm_wait_queued(t->device, "a traced step"));
    TRY(measure(t, &t->after));
    for (int i = 0; i < s->n; i++) TRY(read_span(t, i, &s->span[i]));
    return sort_spans(s);
}
