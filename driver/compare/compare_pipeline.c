#include "driver/compare/compare_page.h"

#include "driver/chart/schedule_chart.h"
#include <float.h>
#include <math.h>

enum { HEADING_BYTES = 256 };

static bool has_stages(const struct compare_row *row) { return row->status == OK && row->layout.n.pp > 1; }

/* The time of a microbatch's F, B (with replays) and W in Gflop, the mean over the ranks that compute. */
static struct pp_work work_of(const struct compare_row *row) {
    int n = 0;
    for (int i = 0; i < row->n_ranks; i++) n += row->ranks[i].flops > 0;
    double scale = 1e-9 / (n ? n : 1) / row->n_microbatches;
    struct pp_work w = {0};
    for (int i = 0; i < row->n_ranks; i++) {
        const struct compare_rank *r = &row->ranks[i];
        w.f += scale * r->forward_flops;
        w.bi += scale * (r->flops - r->forward_flops - r->weight_flops + r->replay_flops);
        w.w += scale * r->weight_flops;
    }
    return w.f > 0 && w.bi > 0 && w.w > 0 ? w : (struct pp_work){1, 1, 1};
}

static enum status make_predicted(const struct compare_row *row, struct schedule_chart *c) {
    *c = (struct schedule_chart){.row = row->schedule, .n_stages = row->layout.n.pp, .n_chunks = row->n_chunks,
                                 .n_microbatches = row->n_microbatches, .time = work_of(row), .unit = "Gflop"};
    return schedule_chart_make(c);
}

/* ---- traced ---- */

/* The spans of a step's F, B and W, in seconds of rank 0's clock. @return false if a span is missing */
static bool take_spans(const struct trace_rank *r, int64_t step, const struct schedule *s, struct timeline_span *span) {
    int wanted = 0, found = 0;
    for (int i = 0; i < s->n; i++) wanted += action_is_compute(s->actions[i].kind);
    for (int i = 0; i < r->n_spans; i++) {
        const struct span *x = &r->spans[i];
        if (x->kind != SPAN_ACTION || x->step != step || !action_is_compute((enum action_kind)x->what)) continue;
        if (x->action < 0 || x->action >= s->n || s->actions[x->action].kind != (enum action_kind)x->what) return false;
        span[x->action] = (struct timeline_span){x->start_s, x->end_s};
        found++;
    }
    return found == wanted;
}

static const struct trace_rank *rank_of_stage(const struct trace_data *d, int stage) {
    for (int i = 0; i < d->n_ranks; i++) {
        const struct mesh_place *p = &d->ranks[i].place;
        if (p->rank.pp == stage && mesh_colour(AXIS_PP, p) == 0) return &d->ranks[i];
    }
    return NULL;
}

/* Convert times to ms after the first start of any stage. Work and idle are means over stages. */
static void count_from_zero(struct schedule_chart *c) {
    double first = DBL_MAX, last = -DBL_MAX, work = 0;
    for (int stage = 0; stage < c->n_stages; stage++)
        for (int i = 0; i < c->stages[stage].n; i++) {
            if (!action_is_compute(c->stages[stage].actions[i].kind)) continue;
            struct timeline_span *x = &c->timeline.span[stage][i];
            first = fmin(first, x->start);
            last = fmax(last, x->end);
            work += x->end - x->start;
        }
    for (int stage = 0; stage < c->n_stages; stage++)
        for (int i = 0; i < c->stages[stage].n; i++) {
            struct timeline_span *x = &c->timeline.span[stage][i];
            *x = (struct timeline_span){1e3 * (x->start - first), 1e3 * (x->end - first)};
        }
    c->timeline.makespan = 1e3 * (last - first);
    c->work = 1e3 * work / c->n_stages;
    c->idle = c->timeline.makespan - c->work;
}

/* Replace the chart's times by those of a traced step. @return false: spans are missing, the times are invalid */
static bool take_step(const struct trace_data *d, int64_t step, struct schedule_chart *c) {
    for (int stage = 0; stage < c->n_stages; stage++) {
        const struct trace_rank *r = rank_of_stage(d, stage);
        if (!r || !take_spans(r, step, &c->stages[stage], c->timeline.span[stage])) return false;
    }
    count_from_zero(c);
    return true;
}

/* Use the fastest traced step, which other programs disturb least. *there: whether the trace has a complete step. */
static enum status make_traced(const struct compare_row *row, struct schedule_chart *c, bool *there) {
    const struct trace_data *d = &row->trace;
    int64_t best = -1;
    double least = 0;
    TRY(make_predicted(row, c));
    for (int64_t step = d->first_step; step < d->first_step + d->n_steps; step++) {
        if (!take_step(d, step, c)) continue;
        if (best < 0 || c->timeline.makespan < least) best = step, least = c->timeline.makespan;
    }
    *there = best >= 0 && take_step(d, best, c);
    c->unit = "ms";
    return OK;
}

static enum status make_chart(const struct compare_row *row, bool traced, char heading[HEADING_BYTES],
                              struct schedule_chart *c, bool *there) {
    *c = (struct schedule_chart){0};
    *there = true;
    TRY(traced ? make_traced(row, c, there) : make_predicted(row, c));
    snprintf(heading, HEADING_BYTES, "%s: %.200s", traced ? "traced" : "predicted", compare_row_name(row));
    c->heading = heading;
    return OK;
}

enum status compare_pipelines(const struct compare_row *rows, int n_rows, json_t *out) {
    for (int i = 0; i < 2 * n_rows; i++) {
        char heading[HEADING_BYTES];
        struct schedule_chart c;
        bool there;
        if (!has_stages(&rows[i / 2])) continue;
        enum status status = make_chart(&rows[i / 2], i % 2, heading, &c, &there);
        if (status == OK && there) json_array_append_new(out, schedule_chart_json(&c));
        schedule_chart_fini(&c);
        TRY(status);
    }
    return OK;
}
