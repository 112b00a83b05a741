#include "lib/trace/trace.h"

#include "lib/trace/trace_state.h"

#include <stdlib.h>

/* ---- the number of spans of a step ----
 * The numbers of rows, actions and phases are known. The number of collectives depends on the techniques; the estimate
 * is two for each row and, outside of rows, two for each param. Spans beyond the capacity are dropped and counted. */
static int64_t spans_of_step(const struct run *r) {
    int64_t rows = (int64_t)schedule_n_rows(&r->schedule, r->chunks);
    return 3 * rows + 2 * r->schedule.n + 2 * r->program.n_params + N_PHASES + 64;
}

enum status trace_create(struct run *r, int64_t n_steps, const struct trace_links *links, struct trace **out) {
    *out = NULL;
    struct trace *t = calloc(1, sizeof *t);
    if (!t) return FAIL(E_MEMORY, "no memory for a trace");
    t->run = r;
    t->n_steps = n_steps;
    if (links) t->links = *links;
    enum status status = spans_init(&t->spans, n_steps * spans_of_step(r));
    if (status == OK && r->device->mark_timed) status = trace_device_create(r->device, &t->spans, &t->device);
    if (status == OK) status = memory_timeline_make(&r->program, r->chunks, &r->schedule, &r->memory, &t->timeline);
    if (status == OK) *out = t;
    else trace_destroy(&t);
    return status;
}

static void record_into(const struct trace *t, struct spans *spans) {
    t->run->exec.spans = spans;
    comm_record(spans);
}

void trace_destroy(struct trace **t) {
    if (!*t) return;
    if ((*t)->recording) record_into(*t, NULL);
    trace_device_destroy(&(*t)->device);
    memory_timeline_fini(&(*t)->timeline);
    spans_fini(&(*t)->spans);
    free(*t);
    *t = NULL;
}

int64_t trace_room_bytes(const struct trace *t) { return (int64_t)t->spans.capacity * (int64_t)sizeof *t->spans.span; }

enum status trace_start(struct trace *t) {
    TRY(clock_measure(t->run->mesh.group[AXIS_MESH], clock_s, &t->before));
    TRY(comm_barrier(t->run->mesh.group[AXIS_MESH]));                /* rank 0 measures the clocks one by one; the
                                                                      * early ranks wait for the last */
    spans_clear(&t->spans);
    if (t->device) TRY(trace_device_start(t->device));
    t->first_step = t->run->n_step;
    t->recording = true;
    record_into(t, &t->spans);
    return OK;
}

enum status trace_stop(struct trace *t) {
    record_into(t, NULL);
    t->recording = false;
    for (int i = 0; i < t->spans.n; i++)                             /* end the open spans, as after a failed step */
        if (t->spans.span[i].end_s == 0) t->spans.span[i].end_s = clock_s();
    if (t->device) TRY(trace_device_stop(t->device, &t->spans));
    return clock_measure(t->run->mesh.group[AXIS_MESH], clock_s, &t->after);
}

/* ---- the bubble ---- */
struct stretch { double from_s, to_s; };

static bool is_compute(const struct span *s) {
    return s->kind == SPAN_ACTION && action_is_compute((enum action_kind)s->what);
}

/* The time from the first compute action of any rank in this step to the end of the last one. */
static struct stretch window_of(const struct trace_data *d, int64_t step) {
    struct stretch w = {d->end_s, d->start_s};
    for (int r = 0; r < d->n_ranks; r++)
        for (int i = 0; i < d->ranks[r].n_spans; i++) {
            const struct span *s = &d->ranks[r].spans[i];
            if (s->step != step || !is_compute(s)) continue;
            if (s->start_s < w.from_s) w.from_s = s->start_s;
            if (s->end_s > w.to_s) w.to_s = s->end_s;
        }
    return w;
}

/* The seconds in compute actions of this kind, over all steps and ranks. Raises *n_microbatches to a step's number. */
static double compute_s(const struct trace_data *d, enum action_kind kind, int *n_microbatches) {
    double sum = 0;
    for (int r = 0; r < d->n_ranks; r++)
        for (int i = 0; i < d->ranks[r].n_spans; i++) {
            const struct span *s = &d->ranks[r].spans[i];
            if (!is_compute(s) || s->what != kind) continue;
            sum += s->end_s - s->start_s;
            if (s->microbatch >= *n_microbatches) *n_microbatches = s->microbatch + 1;
        }
    return sum;
}

/* The number of ranks that compute, which excludes pure parameter servers. */
static int n_computing(const struct trace_data *d) {
    int n = 0;
    for (int r = 0; r < d->n_ranks; r++) {
        bool computes = false;
        for (int i = 0; i < d->ranks[r].n_spans && !computes; i++) computes = is_compute(&d->ranks[r].spans[i]);
        n += computes;
    }
    return n ? n : d->n_ranks;
}

struct trace_bubble trace_bubble(const struct trace_data *d) {
    struct trace_bubble b = {0};
    int n_microbatches = 1;
    double steps = (double)d->n_steps, n = steps * n_computing(d);
    for (int64_t step = d->first_step; step < d->first_step + d->n_steps; step++) {
        struct stretch w = window_of(d, step);
        b.window_s += (w.to_s - w.from_s) / steps;
    }
    double sum_s[N_TAPES], all_s = 0;
    for (enum action_kind kind = ACTION_F; kind <= ACTION_W; kind++)
        all_s += sum_s[kind] = compute_s(d, kind, &n_microbatches);
    b.forward_s = sum_s[ACTION_F] / n / n_microbatches;
    b.backward_s = sum_s[ACTION_B] / n / n_microbatches;
    b.weight_s = sum_s[ACTION_W] / n / n_microbatches;
    b.idle_s = b.window_s - all_s / n;
    return b;
}
