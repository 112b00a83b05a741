#include "driver/plan/plan_pipeline.h"

#include "driver/chart/schedule_chart.h"
#include "pp/pp.h"

enum { MOST_BOXES = 3000, PLOT = 900, HEADING_BYTES = 320 };

int plan_pipeline_microbatches(int n_stages, int n_chunks, int n_microbatches) {
    int rounds = MOST_BOXES / (2 * n_stages * n_chunks * n_stages);
    int most = n_stages * (rounds < 2 ? 2 : rounds);
    return n_microbatches < most ? n_microbatches : most;
}

/* Move the time line into the chart, in ms or, from 10 s on, in seconds. Work is the mean over stages, so idle is a
 * stage's mean idle time. */
static void take_time_line(struct schedule_chart *c, struct price_time_line *t) {
    double unit = t->timeline.makespan < 10 ? 1e3 : 1;
    c->unit = unit > 1 ? "ms" : "s";
    for (int i = 0; i < t->n_stages; i++)
        for (int k = 0; k < t->schedules[i].n; k++) {
            struct timeline_span *x = &t->timeline.span[i][k];
            *x = (struct timeline_span){unit * x->start, unit * x->end};
            if (action_is_compute(t->schedules[i].actions[k].kind)) c->work += (x->end - x->start) / t->n_stages;
        }
    c->stages = t->schedules, t->schedules = NULL;
    c->timeline = t->timeline, t->timeline = (struct timeline){0};
    c->timeline.makespan *= unit;
    c->idle = c->timeline.makespan - c->work;
}

static void draw(const struct plan *p, const struct layout *l, int64_t all, struct price_time_line *t, FILE *svg,
                 json_t **json) {
    char heading[HEADING_BYTES], text[192];
    struct schedule_chart c = {.row = pp_row(p), .n_stages = t->n_stages, .n_microbatches = p->n_microbatches,
                               .heading = heading, .plot = PLOT};
    c.n_chunks = pp_shape_of(c.row, c.n_stages, l->choice[DECIDE_CHUNKS], p->n_microbatches).n_chunks;
    layout_text(l, text, sizeof text);
    if (p->n_microbatches < all)
        snprintf(heading, sizeof heading, "%s; %d of %d microbatches, the others repeat them", text, p->n_microbatches,
                 (int)all);
    else snprintf(heading, sizeof heading, "%s", text);
    take_time_line(&c, t);
    if (svg) schedule_chart_svg(&c, svg);
    if (json) *json = schedule_chart_json(&c);
    schedule_chart_fini(&c);
}

enum status plan_pipeline(const struct recipe *recipe, const struct plan *asked, unsigned fixed,
                          const struct cluster *c, const struct layout *l, FILE *svg, json_t **json) {
    struct plan p = *asked;
    struct price_time_line t;
    if (json) *json = NULL;
    layout_apply(l, fixed, &p);
    if (!layout_is_legal(recipe, &p) || p.mesh.pp <= 1) return OK;
    int64_t all = p.n_microbatches, per_microbatch = p.global_batch / all;
    int chunks = pp_shape_of(pp_row(&p), (int)p.mesh.pp, l->choice[DECIDE_CHUNKS], (int)all).n_chunks;
    p = *asked;
    layout_apply(l, fixed, &p);
    p.global_batch = per_microbatch * plan_pipeline_microbatches((int)l->choice[DECIDE_PP], chunks, (int)all);
    if (!layout_is_legal(recipe, &p)) return FAIL(E_INTERNAL, "a layout that was priced has no shorter step");
    enum status status = price_time_line(recipe, &p, c, l->split[0] != 0, &t);
    if (status == OK) draw(&p, l, all, &t, svg, json);
    price_time_line_fini(&t);
    return status;
}
