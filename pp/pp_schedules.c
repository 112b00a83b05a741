/* The list of schedules, and what is computed from a row: its legality, a stage's actions, the number of staging
 * buffers. */
#include "pp/pp_schedule.h"

#include "lib/base/grow.h"
#include "pp/pp_orders.h"
#include "pp/pp_timeline.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows of pp_schedule.c and pp_zero_bubble.c ---- */
static double bubble(const struct pp_shape *x, const struct pp_work *t) { return pp_bubble(x, t->f + t->bi + t->w); }
const struct pp_schedule pp_gpipe = {.name = "gpipe", .place = &pp_wind, .order = pp_gpipe_order,
                                     .peak = pp_gpipe_peak, .bubble = bubble, .bubble_text = "(p-1)(F+B)"};
const struct pp_schedule pp_1f1b = {.name = "1f1b", .place = &pp_wind, .order = pp_1f1b_order, .peak = pp_1f1b_peak,
                                    .bubble = bubble, .bubble_text = "(p-1)(F+B)"};
const struct pp_schedule pp_interleaved = {
    .name = "interleaved", .place = &pp_wind, .chunked = true, .grouped = true, .order = pp_interleaved_order,
    .peak = pp_interleaved_peak, .bubble = bubble, .bubble_text = "(p-1)(F+B)/v"};
const struct pp_schedule pp_zb_h1 = {.name = "zb-h1", .place = &pp_wind, .split_weight = true, .order = pp_h1_order,
                                     .peak = pp_h1_peak, .bubble = pp_h1_bubble, .bubble_text = "(p-1)(F+Bi-W)"};
const struct pp_schedule pp_zb_h2 = {.name = "zb-h2", .place = &pp_wind, .split_weight = true, .order = pp_h2_order,
                                     .peak = pp_h2_peak, .bubble = pp_h2_bubble, .bubble_text = "(p-1)(F+Bi-2W)"};
static void interleaved_zb_order(const struct pp_shape *x, int stage, struct schedule *out) {
    int after = x->n_stages - 1 - stage, warm = x->n_chunks == 1 ? after : 2 * after + (x->n_chunks - 1) * x->n_stages;
    pp_count(x, (struct pp_count){.warm = warm, .group = x->n_stages, .late = stage}, out);
}
const struct pp_schedule pp_interleaved_zb = {
    .name = "interleaved-zb", .place = &pp_wind, .chunked = true, .grouped = true, .split_weight = true,
    .order = interleaved_zb_order, .depth = pp_simulated_depth};

/* ---- the list ---- */
#define ROW_OF(number, row, name) &row,
static const struct pp_schedule *const ROWS[N_SCHEDULES] = {EVERY_SCHEDULE(ROW_OF)};

const struct pp_schedule *pp_schedule_at(int i) { return i >= 0 && i < N_SCHEDULES ? ROWS[i] : NULL; }

/* The schedules that take chunks: "interleaved, breadth-first". Static storage. */
static const char *chunked_names(void) {
    static char text[256];
    text[0] = 0;
    for (int i = 0; i < N_SCHEDULES; i++)
        if (ROWS[i]->chunked)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? ", " : "", ROWS[i]->name);
    return text;
}

enum status pp_schedule_legal(const struct pp_schedule *row, const struct pp_shape *x) {
    int chunks = row->place->n_chunks ? row->place->n_chunks : 1;
    if (x->n_chunks != chunks && !row->chunked)
        return FAIL(E_CONFIG, "chunks=%d needs a schedule of chunks; use schedule %s, or chunks %d", x->n_chunks,
                    chunked_names(), chunks);
    if (row->chunked && x->n_chunks > 1 && x->n_stages == 1)
        return FAIL(E_CONFIG, "chunks=%d needs a pipeline, and pp=1 has none; use pp 2 or more, or chunks 1",
                    x->n_chunks);
    if (row->grouped && x->n_microbatches % x->n_stages)
        return FAIL(E_CONFIG,
                    "schedule=%s takes microbatches in groups of pp=%d, and there are %d (global-batch / dp / "
                    "micro-batch); use a multiple, such as %d",
                    row->name, x->n_stages, x->n_microbatches, (x->n_microbatches / x->n_stages + 1) * x->n_stages);
    return row->legal ? row->legal(x) : OK;
}

/* ---- a stage's schedule ---- */
static void begin(const struct pp_schedule *row, const struct pp_shape *x, int stage, struct schedule *out) {
    *out = (struct schedule){.n_microbatches = x->n_microbatches, .split_weight = row->split_weight};
    pp_place(row->place, x, stage, out);
}

void pp_begin_all(const struct pp_schedule *row, const struct pp_shape *x, struct schedule *stages) {
    for (int i = 0; i < x->n_stages; i++) begin(row, x, i, &stages[i]);
}

void pp_schedules_make(const struct pp_schedule *row, const struct pp_shape *x, struct schedule *stages) {
    pp_begin_all(row, x, stages);
    for (int i = 0; row->order && i < x->n_stages; i++) row->order(x, i, &stages[i]);
    if (row->order_all) row->order_all(x, stages);
}

void pp_schedule_make(const struct pp_schedule *row, const struct pp_shape *x, int stage, struct schedule *out) {
    if (row->order) {
        begin(row, x, stage, out);
        row->order(x, stage, out);
        return;
    }
    struct schedule *all = table_new(x->n_stages, sizeof *all);
    pp_schedules_make(row, x, all);
    *out = all[stage];
    all[stage] = (struct schedule){0};
    for (int i = 0; i < x->n_stages; i++) schedule_fini(&all[i]);
    free(all);
}

/* ---- times ---- */
struct pp_times pp_times_of(const struct pp_schedule *row, const struct pp_shape *x, const struct pp_work *work,
                            double transfer) {
    double part = (double)row->place->n_pipes / x->n_chunks, w = work->w * part, b = work->bi * part;
    return (struct pp_times){{work->f * part, row->split_weight ? b : b + w, row->split_weight ? w : 0}, transfer};
}

static double time_of(const void *self, int stage, const struct action *a) {
    const struct pp_times *times = self;
    (void)stage;
    return action_is_compute(a->kind) ? times->tape[a->kind] : times->transfer;
}
enum status pp_timeline_make(const struct schedule *stages, int n_stages, int depth, const struct pp_times *times,
                             struct timeline *out) {
    return timeline_make(stages, n_stages, depth, time_of, times, out);
}

/* ---- simulation ---- */
/* Time of a step; infinite if the step does not end. */
static double step_time(const struct schedule *stages, int n_stages, int depth, const struct pp_times *times) {
    struct timeline t;
    enum status status = pp_timeline_make(stages, n_stages, depth, times, &t);
    double end = status == OK ? t.makespan : INFINITY;
    if (status != OK) status_clear();
    timeline_fini(&t);
    return end;
}

bool pp_simulate(const struct schedule *stages, int n_stages, int depth) {
    const struct pp_times timeless = {{0}, 0};
    return step_time(stages, n_stages, depth, &timeless) == 0;
}

int pp_simulated_depth(const struct pp_schedule *row, const struct pp_shape *x) {
    struct schedule *stages = table_new(x->n_stages, sizeof *stages);
    const struct pp_times times = pp_times_of(row, x, &(struct pp_work){1, 1, 1}, 0);
    int depth = 1;
    pp_schedules_make(row, x, stages);
    double best = step_time(stages, x->n_stages, INT_MAX, &times);
    while (depth < x->n_microbatches * x->n_chunks && step_time(stages, x->n_stages, depth, &times) > best) depth++;
    for (int i = 0; i < x->n_stages; i++) schedule_fini(&stages[i]);
    free(stages);
    return depth;
}

int pp_send_depth(const struct pp_schedule *row, const struct pp_shape *x) {
    return row->depth ? row->depth(row, x) : 1;
}
