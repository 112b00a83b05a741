/* Records the times of rows: as sums by step of the program (`--profile`), and as spans (`--trace`). */
#include "lib/program/exec_state.h"

#include "lib/base/clock.h"
#include "lib/device/stopwatch.h"

static bool counts(struct place at, const struct row *r) { return at.training && row_kind_is_step(r->kind); }

/* Record the time of a row. On an asynchronous device the stopwatch adds it later, to the same sum. */
static enum status note_time(struct exec *e, struct place at, const struct row *r, double seconds) {
    e->seconds[r->kind] += seconds;
    if (!counts(at, r)) return OK;
    double *sum = &e->step_seconds[r->id][r->kind];
    if (e->stopwatch) return stopwatch_stop(e->stopwatch, sum);
    *sum += seconds;
    return OK;
}

int record_action(struct exec *e, const struct action *a, int index) {
    if (!e->recording) return -1;
    struct span *now = &e->recording->now;
    now->action = index;
    now->microbatch = a->microbatch;
    now->chunk = (int16_t)a->chunk;
    return span_open(e->recording, SPAN_ACTION, (int)a->kind);
}

/* Most events have no technique that acts on them. An event shorter than this is not recorded; copies always are. */
static const double shortest_event_s = 1e-6;

static void close_row(struct exec *e, const struct tape *t, int i, int span) {
    struct span *x = span_at(e->recording, span);
    if (!x) return;
    const struct row *r = &t->rows[i];
    span_close(e->recording, span);
    bool is_event = row_kind_is_event(r->kind);
    if (is_event && span == e->recording->n - 1 && x->end_s - x->start_s < shortest_event_s) e->recording->n--;
}

/* Open the span of a row. Spans that are recorded inside it are not marked as rows. */
static int open_row(struct exec *e, const struct tape *t, int i, double start_s) {
    struct spans *s = e->recording;
    const struct row *r = &t->rows[i];
    if (!s) return -1;
    const struct span before = s->now;
    s->now.id = r->id;
    s->now.row = i;
    if (r->joined > 1) s->now.other = t->rows[i + r->joined - 1].id;
    int span = span_open_at(s, SPAN_ROW, (int)r->kind, start_s);
    s->now = before;
    return span;
}

enum status record_row_start(struct exec *e, struct place at, const struct tape *t, int row, struct timed_row *timed) {
    const struct row *r = &t->rows[row];
    timed->start_s = clock_s();
    timed->span = open_row(e, t, row, timed->start_s);
    return e->stopwatch && counts(at, r) ? stopwatch_start(e->stopwatch) : OK;
}

enum status record_row_end(struct exec *e, struct place at, const struct tape *t, int row,
                           const struct timed_row *timed) {
    TRY(note_time(e, at, &t->rows[row], clock_s() - timed->start_s));
    close_row(e, t, row, timed->span);
    return OK;
}
