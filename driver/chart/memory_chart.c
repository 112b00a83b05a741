#include "driver/chart/memory_chart.h"

#include "lib/trace/memory_timeline.h"
#include <stdio.h>

/* From bottom to top: parameters, which are constant, come first, and activations, which change, last. */
static const enum role ORDER[N_ROLES] = {ROLE_PARAM, ROLE_GRAD, ROLE_OPTIM, ROLE_SAVE, ROLE_COMM, ROLE_WORK, ROLE_ACT};

/* The fullest of points [from, to). */
static const struct memory_point *fullest(const struct memory_timeline *t, int from, int to) {
    const struct memory_point *most = &t->points[from];
    for (int i = from + 1; i < to; i++)
        if (roles_total(t->points[i].alive) > roles_total(most->alive)) most = &t->points[i];
    return most;
}

static void add_points(const struct memory_timeline *t, json_t *row, json_t *alive) {
    const int each = (t->n + MEMORY_CHART_POINTS - 1) / MEMORY_CHART_POINTS;
    json_t *of[N_ROLES];
    for (int i = 0; i < N_ROLES; i++) json_object_set_new(alive, role_name(ORDER[i]), of[ORDER[i]] = json_array());
    for (int from = 0; from < t->n; from += each) {
        const struct memory_point *p = fullest(t, from, from + each < t->n ? from + each : t->n);
        json_array_append_new(row, json_integer(from));
        for (int k = 0; k < N_ROLES; k++) json_array_append_new(of[k], json_integer(p->alive[k]));
    }
}

static json_t *marks_json(const struct run *r, const struct memory_timeline *t) {
    json_t *marks = json_array();
    for (int i = 0; i < r->schedule.n && i < t->n_actions; i++) {
        const struct action *a = &r->schedule.actions[i];
        char label[24];
        if (!action_is_compute(a->kind) || t->first[i] < 0 || t->first[i] >= t->n) continue;
        int n = snprintf(label, sizeof label, "%s%d", action_name(a->kind), a->microbatch);
        if (r->program.n_chunks > 1) snprintf(label + n, sizeof label - (size_t)n, ".%d", a->chunk);
        json_array_append_new(marks, json_pack("[i, s]", t->first[i], label));
    }
    return marks;
}

enum status memory_chart_json(const struct run *r, json_t *name, json_t **out) {
    struct memory_timeline t = {0};
    json_t *row = json_array(), *alive = json_object();
    enum status status = memory_timeline_make(&r->program, r->chunks, &r->schedule, &r->memory, &t);
    if (status == OK) add_points(&t, row, alive);
    *out = json_pack("{s:i, s:I, s:o, s:o, s:o, s:o, s:i, s:i}", "rows", t.n, "planned_bytes",
                     (json_int_t)roles_total(r->memory.bytes[TIER_DEVICE]), "row", row, "alive_bytes", alive, "marks",
                     marks_json(r, &t), "strategy", name, "rank", mesh_rank_of(&r->plan.place), "ranks",
                     plan_ranks(&r->plan));
    memory_timeline_fini(&t);
    if (status == OK && !*out) status = FAIL(E_MEMORY, "no memory for a time line of %d rows", t.n);
    if (status != OK) json_decref(*out), *out = NULL;
    return status;
}
