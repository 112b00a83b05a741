#include "driver/chart/memory_chart.h"

#include "lib/trace/memory_timeline.h"
#include <math.h>
#include <stdlib.h>

static const double MIB = 1 << 20;

const struct chart_series memory_chart_roles[N_ROLES] = {
    [ROLE_PARAM] = {"param", CHART_BLUE}, [ROLE_GRAD] = {"grad", CHART_VERMILION},
    [ROLE_OPTIM] = {"optim", CHART_GREEN},
    [ROLE_ACT] = {"act", CHART_ORANGE}, [ROLE_COMM] = {"comm", CHART_PURPLE}, [ROLE_WORK] = {"work", CHART_SKY},
    [ROLE_SAVE] = {"save", CHART_GREY},
};

/* Params below, as what is always there; activations on top, as what moves. */
static const enum role ORDER[N_ROLES] = {ROLE_PARAM, ROLE_GRAD, ROLE_OPTIM, ROLE_SAVE, ROLE_COMM, ROLE_WORK, ROLE_ACT};

void memory_chart_fini(struct memory_chart *d) {
    free(d->x);
    free(d->value);
    free(d->marks);
    free(d->labels);
    *d = (struct memory_chart){0};
}

static enum status allocate(struct memory_chart *d, int n_points, int n_actions) {
    d->x = calloc((size_t)n_points + 1, sizeof *d->x);
    d->value = calloc(((size_t)n_points + 1) * N_ROLES, sizeof *d->value);
    d->marks = calloc((size_t)n_actions + 1, sizeof *d->marks);
    d->labels = calloc((size_t)n_actions + 1, sizeof *d->labels);
    return d->x && d->value && d->marks && d->labels ? OK
                                                     : FAIL(E_MEMORY, "no memory for a picture of %d rows", n_points);
}

static int64_t alive(const struct memory_point *p) {
    int64_t sum = 0;
    for (enum role role = 0; role < N_ROLES; role++) sum += p->alive[role];
    return sum;
}

/* The fullest of points [from, to). */
static const struct memory_point *fullest(const struct memory_timeline *t, int from, int to) {
    const struct memory_point *most = &t->points[from];
    for (int i = from + 1; i < to; i++)
        if (alive(&t->points[i]) > alive(most)) most = &t->points[i];
    return most;
}

static void fill_points(struct memory_chart *d, const struct memory_timeline *t) {
    int each = (t->n + MEMORY_CHART_POINTS - 1) / MEMORY_CHART_POINTS;
    for (int from = 0; from < t->n; from += each) {
        const struct memory_point *p = fullest(t, from, from + each < t->n ? from + each : t->n);
        for (int i = 0; i < N_ROLES; i++) d->value[d->n_points * N_ROLES + i] = (double)p->alive[ORDER[i]] / MIB;
        d->x[d->n_points++] = from;
    }
}

/* "F3", or "F3.1" where there are chunks, at the first row of each forward and backward. */
static void fill_marks(struct memory_chart *d, const struct memory_timeline *t, const struct schedule *s,
                       int n_chunks) {
    for (int i = 0; i < s->n && i < t->n_actions; i++) {
        const struct action *a = &s->actions[i];
        char *label = d->labels[d->n_marks];
        if (!action_is_compute(a->kind) || t->first[i] < 0 || t->first[i] >= t->n) continue;
        if (n_chunks > 1)
            snprintf(label, MEMORY_CHART_LABEL_BYTES, "%s%d.%d", action_name(a->kind), a->microbatch, a->chunk);
        else snprintf(label, MEMORY_CHART_LABEL_BYTES, "%s%d", action_name(a->kind), a->microbatch);
        d->marks[d->n_marks++] = (struct chart_mark){t->first[i], label};
    }
}

enum status memory_chart_make(const struct run *r, struct memory_chart *out) {
    struct memory_timeline t = {0};
    *out = (struct memory_chart){0};
    enum status status = memory_timeline_make(&r->program, r->chunks, &r->schedule, &r->memory, &t);
    if (status == OK) status = allocate(out, t.n, t.n_actions);
    if (status == OK) {
        fill_points(out, &t);
        fill_marks(out, &t, &r->schedule, r->program.n_chunks);
        out->n_rows = t.n;
        for (enum role role = 0; role < N_ROLES; role++)
            out->planned += (double)r->memory.bytes[TIER_DEVICE][role] / MIB;
    }
    memory_timeline_fini(&t);
    return status;
}

json_t *memory_chart_json(const struct memory_chart *d) {
    json_t *at = json_array(), *alive = json_object(), *marks = json_array();
    for (int i = 0; i < d->n_points; i++) json_array_append_new(at, json_integer((json_int_t)d->x[i]));
    for (int k = 0; k < N_ROLES; k++) {
        json_t *of = json_array();
        for (int i = 0; i < d->n_points; i++)
            json_array_append_new(of, json_integer(llround(MIB * d->value[i * N_ROLES + k])));
        json_object_set_new(alive, role_name(ORDER[k]), of);
    }
    for (int i = 0; i < d->n_marks; i++)
        json_array_append_new(marks, json_pack("[I, s]", (json_int_t)d->marks[i].x, d->marks[i].label));
    return json_pack("{s:i, s:I, s:o, s:o, s:o}", "rows", d->n_rows, "planned_bytes",
                     (json_int_t)llround(MIB * d->planned), "row", at, "alive_bytes", alive, "marks", marks);
}

double memory_chart_svg(const struct memory_chart *d, const char *title, double highest, FILE *f) {
    struct chart_series series[N_ROLES];
    char level[64], number[CHART_NUMBER_BYTES];
    for (int i = 0; i < N_ROLES; i++) series[i] = memory_chart_roles[ORDER[i]];
    snprintf(level, sizeof level, "planned peaks of all roles together: %s MiB", chart_number(d->planned, number));
    return chart_areas_svg(&(struct chart_areas){
        .title = title, .x_name = "rows of a step, in their order: F forward, B backward of a microbatch",
        .unit = "MiB", .series = series, .n_series = N_ROLES,
        .n_points = d->n_points, .n_marks = d->n_marks, .x = d->x, .value = d->value, .x_end = d->n_rows,
        .highest = highest, .level = d->planned, .level_name = level, .marks = d->marks}, f);
}
