/* Check a pipeline schedule and compute the times of its actions. */
#include "driver/chart/schedule_chart.h"

#include "driver/report/report.h"
#include "pp/pp_check.h"
#include <stdlib.h>

enum { MAX_ACTIONS = 1 << 22 };

/* The number of updates to draw of a schedule without a flush, so that every stage fills up. */
static int updates_of(const struct schedule_chart *c) { return 2 + (c->n_stages - 1) / c->n_microbatches; }

struct pp_shape schedule_chart_shape(const struct schedule_chart *c) {
    struct pp_shape x = pp_shape_of(c->row, c->n_stages, c->n_chunks, c->n_microbatches);
    if (c->row->timed) x.cost = pp_costs_of(&c->time, c->transfer, c->held, c->memory);
    return x;
}

static enum status make_stages(struct schedule_chart *c) {
    struct pp_shape shape = schedule_chart_shape(c);
    int p = c->n_stages, v = shape.n_chunks, m = c->n_microbatches;
    if ((double)p * v * m > MAX_ACTIONS)
        return FAIL(E_CONFIG,
                    "pp=%d x chunks=%d x microbatches=%d = %.0f forwards; the limit is %d: use fewer microbatches", p,
                    v, m, (double)p * v * m, MAX_ACTIONS);
    c->stages = calloc((size_t)p, sizeof *c->stages);
    if (!c->stages) return FAIL(E_MEMORY, "no memory for %d stages", p);
    pp_schedules_make(c->row, &shape, c->stages);
    for (int i = 0; c->row->endless && i < p; i++) {
        struct schedule all;
        pp_unroll(&c->stages[i], updates_of(c), &all);
        free(c->stages[i].actions);
        c->stages[i] = all;
    }
    c->send_depth = pp_send_depth(c->row, &shape);
    return pp_check_schedules(c->stages, p, v, c->send_depth);
}

enum status schedule_chart_make(struct schedule_chart *c) {
    const struct pp_shape shape = schedule_chart_shape(c);
    TRY(pp_schedule_legal(c->row, &shape));
    c->n_chunks = shape.n_chunks;
    c->times = pp_times_of(c->row, &shape, &c->time, c->transfer);
    TRY(make_stages(c));
    TRY(pp_timeline_make(c->stages, c->n_stages, c->send_depth, &c->times, &c->timeline));
    c->work = c->stages[0].n_microbatches * (c->time.f + c->time.bi + c->time.w);
    c->idle = timeline_idle(&c->timeline, c->stages, 0);
    c->bubble = timeline_bubble(&c->timeline, c->stages);
    return OK;
}

void schedule_chart_fini(struct schedule_chart *c) {
    for (int i = 0; c->stages && i < c->n_stages; i++) schedule_fini(&c->stages[i]);
    free(c->stages);
    c->stages = NULL;
    timeline_fini(&c->timeline);
}

void schedule_chart_title(const struct schedule_chart *c, FILE *f) {
    fprintf(f, "%s: %d stage%s, %d microbatch%s", c->row->name, c->n_stages, c->n_stages == 1 ? "" : "s",
            c->n_microbatches, c->n_microbatches == 1 ? "" : "es");
    if (c->row->endless) fprintf(f, " per update, %d updates", updates_of(c));
    if (c->row->place->n_pipes > 1) fprintf(f, ", in two directions");
    else if (c->n_chunks > 1) fprintf(f, ", %d chunks a stage", c->n_chunks);
}

static void print_title(FILE *f, const void *self) { schedule_chart_title(self, f); }

json_t *schedule_chart_json(const struct schedule_chart *c) {
    json_t *stages = json_array();
    for (int i = 0; i < c->n_stages; i++) {
        json_t *actions = json_array();
        for (int k = 0; k < c->stages[i].n; k++) {
            const struct action *a = &c->stages[i].actions[k];
            struct timeline_span x = c->timeline.span[i][k];
            if (!action_is_compute(a->kind)) continue;
            json_array_append_new(actions, json_pack("[s, i, i, f, f]", action_name(a->kind), a->microbatch, a->chunk,
                                                     x.start, x.end));
        }
        json_array_append_new(stages, actions);
    }
    return json_pack("{s:o, s:o, s:s, s:f, s:f, s:f, s:i, s:i, s:o}", "heading",
                     report_text(c->heading ? c->heading : ""), "title", report_words(print_title, c), "unit",
                     c->unit ? c->unit : "", "makespan", c->timeline.makespan, "work", c->work, "idle", c->idle,
                     "chunks", c->n_chunks, "pipes", c->row->place->n_pipes, "stages", stages);
}
