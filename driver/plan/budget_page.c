#include "driver/plan/budget_page.h"

#include "driver/plan/plan_page.h"
#include "driver/report/report.h"
#include "lib/base/grow.h"
#include "planner/failure.h"
#include <math.h>

enum { N_CURVES = 2, MOST_LINES = 5, N_STEPS = 81 };

void budget_curve_add(struct budget_curve *c, const struct budget_line *l) {
    c->line = table_grow(c->line, c->n, sizeof *c->line);
    c->line[c->n++] = *l;
}
void budget_curve_fini(struct budget_curve *c) {
    free(c->line);
    *c = (struct budget_curve){0};
}

double budget_mfu_left(const struct budget_line *l) { return l->mfu / l->cost.slowest * l->cost.goodput; }

/* ---- curves ---- */
static json_t *line_json(const struct budget_line *l) {
    json_t *o = json_pack("{s:I, s:I, s:b}", "ranks", (json_int_t)l->ranks, "global_batch", (json_int_t)l->batch,
                          "fits", l->fits);
    if (!l->fits) return o;
    json_object_set_new(o, "mfu", json_real(l->mfu));
    json_object_set_new(o, "mfu_left", report_number(budget_mfu_left(l)));
    if (!l->searched) return o;
    json_object_set_new(o, "step_s", json_real(l->best.price.step_s));
    json_object_set_new(o, "parts_s", plan_parts_json(&l->best.price));
    return o;
}

json_t *budget_curves_json(const struct budget_page *p) {
    json_t *curves = json_array();
    for (int k = 0; k < N_CURVES; k++) {
        json_t *lines = json_array();
        for (int i = 0; i < p->curve[k].n; i++) json_array_append_new(lines, line_json(&p->curve[k].line[i]));
        json_array_append_new(curves, lines);
    }
    return curves;
}

/* ---- goodput ---- */
static const struct budget_curve *longest(const struct budget_page *p) {
    return p->curve[0].n >= p->curve[1].n ? &p->curve[0] : &p->curve[1];
}

static json_t *point_json(const struct budget_page *p, const struct budget *b, double interval_s) {
    return json_pack("[f, f]", interval_s, 1 - failure_goodput(interval_s, p->stall_s, b->mtbf_s, p->restart_s));
}

static json_t *lost_json(const struct budget_page *p, const struct budget_line *l, double from, double to) {
    json_t *line = json_array();
    for (int k = 0; k < N_STEPS; k++)
        json_array_append_new(line, point_json(p, &l->cost, from * pow(to / from, (double)k / (N_STEPS - 1))));
    return json_pack("{s:I, s:o, s:o, s:o}", "ranks", (json_int_t)l->ranks, "line", line, "young",
                     point_json(p, &l->cost, l->cost.young_s), "daly", point_json(p, &l->cost, l->cost.daly_s));
}

/* Line i of n, evenly spaced over the curve. */
static const struct budget_line *line_at(const struct budget_curve *c, int i, int n) {
    return &c->line[n == 1 ? 0 : i * (c->n - 1) / (n - 1)];
}

/* Intervals reach from a tenth of the shortest Young interval to ten times the longest. */
json_t *budget_goodput_json(const struct budget_page *p) {
    const struct budget_curve *c = longest(p);
    json_t *all = json_array();
    double from = INFINITY, to = 0;
    int n = c->n < MOST_LINES ? c->n : MOST_LINES;
    for (int i = 0; i < n; i++) {
        from = fmin(from, line_at(c, i, n)->cost.young_s / 10);
        to = fmax(to, line_at(c, i, n)->cost.young_s * 10);
    }
    for (int i = 0; i < n; i++)
        if (line_at(c, i, n)->cost.young_s > 0) json_array_append_new(all, lost_json(p, line_at(c, i, n), from, to));
    return all;
}
