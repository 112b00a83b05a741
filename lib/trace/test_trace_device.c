/* ranks: 1 2  device: any
 *
 * A GPU's times in a trace. They must be on the host's clock, for any device clock. The rows must be those of the CPU's
 * trace, in its order, and no step may wait for the trace. */
#include "driver/recipe.h"
#include "lib/base/clock.h"
#include "lib/trace/trace.h"
#include "lib/trace/trace_device.h"
#include "models/llama/llama.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern int64_t simt_host_waits(void) __attribute__((weak));

/* ---- a device whose clock runs fast, and is a day ahead ---- */
static const double day_s = 86400, rate = 1.001;
static double now_there(void) { return day_s + rate * clock_s(); }

static enum status mark_there(const struct device *d, void *stream, struct device_mark *mark) {
    (void)d;
    if (!mark->event) mark->event = malloc(sizeof(double));
    *(double *)mark->event = now_there() + (stream ? *(double *)stream : 0);
    return OK;
}
static enum status seconds_there(const struct device *d, const struct device_mark *from, const struct device_mark *to,
                                 double *seconds) {
    (void)d;
    *seconds = *(double *)to->event - *(double *)from->event;
    return OK;
}
static void forget(const struct device *d, struct device_mark *mark) {
    (void)d;
    free(mark->event);
    mark->event = NULL;
}
static enum status mark_plainly(const struct device *d, struct device_mark *mark) { return mark_there(d, NULL, mark); }
static enum status finish_there(const struct device *d) { return (void)d, OK; }
static const struct device fast = {.kind = DEVICE_CUDA, .name = "fast", .mark_timed = mark_there,
                                   .mark_seconds = seconds_there, .mark_set = mark_plainly, .mark_fini = forget,
                                   .finish = finish_there};

static void pass_ms(int ms) { nanosleep(&(struct timespec){0, 1000000L * ms}, NULL); }

/* Two rows, and a collective whose stream runs it 30 ms later, so that it begins after the second row. A dropped row
 * has a wait; the row that reuses its index must have none. */
TEST(test_times_are_the_devices_on_the_hosts_clock) {
    if (test_device()->kind != DEVICE_CPU) skip();                   /* comm would read a real device's marks */
    struct spans s;
    struct trace_device *t;
    double later_s = 0.030 * rate, host[4];
    assert_ok(spans_init(&s, 8));
    assert_ok(trace_device_create(&fast, &s, &t));
    assert_ok(trace_device_start(t));
    int dropped = span_open(&s, SPAN_ROW, 0);
    span_mark(&s, dropped, SPAN_WAITS, NULL);
    s.n--;
    int row = span_open(&s, SPAN_ROW, 1);
    host[0] = clock_s();
    int comm = span_open(&s, SPAN_COMM, 2);
    span_mark(&s, comm, SPAN_BEGINS, &later_s);
    span_mark(&s, comm, SPAN_ENDS, &later_s);
    host[1] = clock_s();
    s.span[comm].end_s = host[1];                                    /* a host time, which stop must replace */
    pass_ms(10);
    span_close(&s, row);
    host[2] = clock_s();
    int second = span_open(&s, SPAN_ROW, 3);
    span_mark(&s, comm, SPAN_WAITS, NULL);
    s.span[comm].wait_s = clock_s();
    pass_ms(40);
    span_close(&s, second);
    host[3] = clock_s();
    assert_ok(trace_device_stop(t, &s));
    double within_s = trace_device_uncertainty_s(t) + 1e-3;          /* 1 ms: the scheduler may suspend this process */
    assert_int_equal(s.n, 3);
    assert_int_equal(s.span[0].what, 1);
    assert_int_equal(s.span[1].what, 3);                             /* the collective begins last */
    assert_int_equal(s.span[2].what, 2);
    assert_close(s.span[0].start_s, host[0], within_s);
    assert_close(s.span[0].end_s, host[2], within_s);
    assert_close(s.span[1].end_s, host[3], within_s);
    assert_close(s.span[2].start_s, host[1] + 0.030, within_s);
    assert_close(s.span[2].end_s, host[1] + 0.030, within_s);
    assert_true(s.span[2].wait_s == s.span[2].start_s);              /* the wait precedes its begin */
    assert_true(s.span[0].wait_s == s.now.wait_s);
    trace_device_destroy(&t);
    spans_fini(&s);
}

static enum status refuse(const struct device *d, void *stream, struct device_mark *mark) {
    (void)d, (void)stream, (void)mark;
    return FAIL(E_DEVICE, "cudaEventRecord: no more events");
}

TEST(test_a_mark_that_cannot_be_set_is_told_at_the_end) {
    if (test_device()->kind != DEVICE_CPU) skip();
    struct device broken = fast;
    struct spans s;
    struct trace_device *t;
    assert_ok(spans_init(&s, 8));
    assert_ok(trace_device_create(&broken, &s, &t));
    assert_ok(trace_device_start(t));
    broken.mark_timed = refuse;
    span_close(&s, span_open(&s, SPAN_ROW, 0));
    assert_fails(trace_device_stop(t, &s), E_DEVICE, "no more events");
    trace_device_destroy(&t);
    spans_fini(&s);
}

/* ---- the device's trace against the CPU's ---- */
enum { WARM = 1, TRACED = 2 };
struct seen { struct run run; struct trace_data data; double from_s, to_s; int64_t waits; };

static struct plan plan_of(int layout, bool on_device) {
    struct plan p = parity_plan();
    int n = comm_world_size();
    p.layers = 2, p.global_batch = 8, p.micro_batch = 2, p.steps = WARM + TRACED;
    p.vocab = 256;                                                   /* CUDA does not pad 256 */
    p.arch = &model_llama;                                          /* on CUDA, gpt's gelu moves in the tape */
    p.fuse = false, p.loss_chunk = 0;                                /* the same rows on both devices */
    p.device = on_device ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    *(layout == 0 ? &p.mesh.tp : layout == 1 ? &p.mesh.pp : &p.mesh.dp) = n;
    plan_set_number(&p, "sp", layout == 0 && n > 1);
    plan_set_number(&p, "zero", layout == 2 ? 1 : 0);
    return p;
}

/* Steps overlap as in the driver: the second is queued before the first is finished. */
static enum status run_steps(struct run *r, int64_t *waits) {
    int64_t before = simt_host_waits ? simt_host_waits() : 0;
    for (int i = 0; i < TRACED; i++) TRY(run_step_start(r));
    *waits = simt_host_waits ? simt_host_waits() - before : 0;
    for (int i = 0; i < TRACED; i++) TRY(run_step_finish(r));
    return OK;
}

/* @collective{world} */
static enum status run_traced(struct plan p, struct seen *out) {
    struct trace *t = NULL;
    bool overlaps = p.device == PLAN_DEVICE_CUDA;
    *out = (struct seen){.from_s = clock_s()};
    TRY(layout_open(&out->run, p, WATCH_NOTHING));
    for (int i = 0; i < WARM; i++) TRY(run_step(&out->run));
    TRY(trace_create(&out->run, TRACED, NULL, &t));
    enum status status = trace_start(t);
    if (status == OK && overlaps) status = run_steps(&out->run, &out->waits);
    for (int i = 0; i < TRACED && !overlaps && status == OK; i++) status = run_step(&out->run);
    if (status == OK) status = trace_stop(t);
    if (status == OK) status = trace_gather(t, &out->data);
    out->to_s = clock_s();
    trace_destroy(&t);
    return status;
}

static void finish(struct seen *s) {
    trace_data_fini(&s->data);
    run_destroy(&s->run);
}

/* Is the span in this lane? Event rows are left out: whether they appear depends on timing (docs/trace.md). */
static bool in_lane(const struct span *s, int lane) {
    if (lane == 0) return s->kind == SPAN_STEP || s->kind == SPAN_PHASE;
    if (lane == 1)
        return s->kind == SPAN_ACTION || s->kind == SPAN_FETCH ||
               (s->kind == SPAN_ROW && !row_kind_is_event((enum row_kind)s->what));
    return s->kind == SPAN_COMM && s->axis == lane - 2;
}
enum { N_LANES = 2 + N_MESH_AXES };

static char *text_of(const struct trace_rank *r, int lane) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    for (int i = 0; i < r->n_spans; i++) {
        const struct span *s = &r->spans[i];
        if (!in_lane(s, lane)) continue;
        fprintf(to, "%s, step %d, microbatch %d, chunk %d, row %d, %d elements, %.0f bytes\n", trace_span_name(r, s),
                s->step, s->microbatch, s->chunk, s->kind == SPAN_ROW ? s->row : 0,
                s->kind == SPAN_COMM ? s->count : 0, s->kind == SPAN_ROW ? 0 : s->bytes);
    }
    fclose(to);
    return text;
}

/* Print both texts from the first different line on. */
static void say_difference(int rank, int lane, const char *x, const char *y) {
    size_t line = 0;
    for (size_t i = 0; x[i] && x[i] == y[i]; i++)
        if (x[i] == '\n') line = i + 1;
    print_error("rank %d, lane %d: on the CPU\n%.400s\non the device\n%.400s\n", rank, lane, x + line, y + line);
}

static bool lanes_are_the_same(const struct trace_data *a, const struct trace_data *b) {
    bool same = a->n_ranks == b->n_ranks;
    for (int rank = 0; rank < a->n_ranks && same; rank++)
        for (int lane = 0; lane < N_LANES && same; lane++) {
            char *x = text_of(&a->ranks[rank], lane), *y = text_of(&b->ranks[rank], lane);
            same = strcmp(x, y) == 0 && (lane > 1 || *x);
            if (!same) say_difference(rank, lane, x, y);
            free(x);
            free(y);
        }
    return same;
}

/* On rank 0's clock, which is this process's, every span must lie between from_s and to_s. */
static bool lies_in_time(const struct seen *s) {
    bool fine = true;
    for (int rank = 0; rank < s->data.n_ranks; rank++) {
        const struct trace_rank *r = &s->data.ranks[rank];
        for (int i = 0; i < r->n_spans; i++)
            fine &= r->spans[i].start_s > s->from_s - r->uncertainty_s && r->spans[i].end_s >= r->spans[i].start_s &&
                    r->spans[i].end_s < s->to_s + r->uncertainty_s &&
                    (i == 0 || r->spans[i].start_s >= r->spans[i - 1].start_s);
    }
    return fine;
}

TEST(test_the_rows_are_those_of_the_cpu_in_their_order) {
    if (test_device()->kind == DEVICE_CPU) skip();
    for (int layout = 0; layout < (comm_world_size() == 1 ? 1 : 3); layout++) {
        struct seen cpu = {.from_s = 0}, gpu = {.from_s = 0};
        bool fine = run_traced(plan_of(layout, false), &cpu) == OK && run_traced(plan_of(layout, true), &gpu) == OK;
        fine = fine && lies_in_time(&gpu) && lanes_are_the_same(&cpu.data, &gpu.data);
        if (!fine) print_error("layout %d: %s\n", layout, status_text());
        fine = agree_all(fine);
        int64_t waits = gpu.waits;
        finish(&cpu);
        finish(&gpu);
        assert_true(fine);
        assert_int_equal(waits, 0);                                  /* no step waits for the trace */
    }
}

TESTS(unit_test(test_times_are_the_devices_on_the_hosts_clock),
      unit_test(test_a_mark_that_cannot_be_set_is_told_at_the_end),
      unit_test(test_the_rows_are_those_of_the_cpu_in_their_order))
