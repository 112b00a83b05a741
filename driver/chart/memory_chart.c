#include "driver/chart/memory_chart.h"

#include "lib/trace/memory_timeline.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MIB = 1 << 20;

const struct chart_series memory_chart_roles[N_ROLES] = {
    [ROLE_PARAM] = {"param", CHART_BLUE}, [ROLE_GRAD] = {"grad", CHART_VERMILION},
    [ROLE_OPTIM] = {"optim", CHART_GREEN},
    [ROLE_ACT] = {"act", CHART_ORANGE}, [ROLE_COMM] = {"comm", CHART_PURPLE}, [ROLE_WORK] = {"work", CHART_SKY},
    [ROLE_SAVE] = {"save", CHART_GREY},
};

/* Params below, as what is always there; activations on top, as what moves. */
static const enum role ORDER[N_ROLES] = {ROLE_PARAM, ROLE_GRAD, ROLE_OPTIM, ROLE_SAVE, ROLE_COMM, ROLE_WORK, ROLE_ACT};

void memory_chart_fini(struct memory_chart *c) {
    free(c->row);
    free(c->alive);
    free(c->marks);
    *c = (struct memory_chart){0};
}

/* The bytes of the first n roles of ORDER. */
static int64_t pile(const int64_t alive[N_ROLES], int n) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += alive[ORDER[i]];
    return sum;
}

/* The fullest of points [from, to). */
static const struct memory_point *fullest(const struct memory_timeline *t, int from, int to) {
    const struct memory_point *most = &t->points[from];
    for (int i = from + 1; i < to; i++)
        if (pile(t->points[i].alive, N_ROLES) > pile(most->alive, N_ROLES)) most = &t->points[i];
    return most;
}

static void fill_points(struct memory_chart *c, const struct memory_timeline *t) {
    int each = (t->n + MEMORY_CHART_POINTS - 1) / MEMORY_CHART_POINTS;
    for (int from = 0; from < t->n; from += each) {
        const struct memory_point *p = fullest(t, from, from + each < t->n ? from + each : t->n);
        memcpy(c->alive[c->n_points], p->alive, sizeof p->alive);
        c->row[c->n_points++] = from;
    }
}

static void fill_marks(struct memory_chart *c, const struct memory_timeline *t, const struct schedule *s,
                       int n_chunks) {
    for (int i = 0; i < s->n && i < t->n_actions; i++) {
        const struct action *a = &s->actions[i];
        struct memory_mark *m = &c->marks[c->n_marks];
        if (!action_is_compute(a->kind) || t->first[i] < 0 || t->first[i] >= t->n) continue;
        m->row = t->first[i];
        int n = snprintf(m->label, sizeof m->label, "%s%d", action_name(a->kind), a->microbatch);
        if (n_chunks > 1) snprintf(m->label + n, sizeof m->label - (size_t)n, ".%d", a->chunk);
        c->n_marks++;
    }
}

enum status memory_chart_make(const struct run *r, struct memory_chart *c) {
    struct memory_timeline t = {0};
    *c = (struct memory_chart){0};
    enum status status = memory_timeline_make(&r->program, r->chunks, &r->schedule, &r->memory, &t);
    c->row = calloc((size_t)t.n + 1, sizeof *c->row);
    c->alive = calloc((size_t)t.n + 1, sizeof *c->alive);
    c->marks = calloc((size_t)t.n_actions + 1, sizeof *c->marks);
    if (status == OK && (!c->row || !c->alive || !c->marks))
        status = FAIL(E_MEMORY, "no memory for a picture of %d rows", t.n);
    if (status == OK) {
        fill_points(c, &t);
        fill_marks(c, &t, &r->schedule, r->program.n_chunks);
        c->n_rows = t.n;
        c->planned = pile(r->memory.bytes[TIER_DEVICE], N_ROLES);
    }
    memory_timeline_fini(&t);
    return status;
}

json_t *memory_chart_json(const struct memory_chart *c) {
    json_t *at = json_array(), *alive = json_object(), *marks = json_array();
    for (int i = 0; i < c->n_points; i++) json_array_append_new(at, json_integer(c->row[i]));
    for (int k = 0; k < N_ROLES; k++) {
        json_t *of = json_array();
        for (int i = 0; i < c->n_points; i++) json_array_append_new(of, json_integer(c->alive[i][ORDER[k]]));
        json_object_set_new(alive, role_name(ORDER[k]), of);
    }
    for (int i = 0; i < c->n_marks; i++)
        json_array_append_new(marks, json_pack("[i, s]", c->marks[i].row, c->marks[i].label));
    return json_pack("{s:i, s:I, s:o, s:o, s:o}", "rows", c->n_rows, "planned_bytes", (json_int_t)c->planned, "row", at,
                     "alive_bytes", alive, "marks", marks);
}

/* ---- as a picture: each role stands on the ones before it, as a staircase ---- */
enum { TOP = 38, LEFT = 74, RIGHT = CHART_WIDTH - CHART_MARGIN, PLOT = 250, AXIS = 52, MARK_LINE = 18, MARK_GAP = 3 };
static const double HEADROOM = 1.08;                                 /* for the word on the dashed line */

struct canvas { const struct memory_chart *c; FILE *f; struct chart_scale x, y; double top; };

/* The x axis ends where the last value does, not at a round number. */
static double x_of(const struct canvas *v, double row) { return LEFT + (RIGHT - LEFT) * row / fmax(1, v->c->n_rows); }
static double y_of(const struct canvas *v, double mib) { return v->top + PLOT * (1 - chart_scale_at(&v->y, mib)); }
static double mib_at(const struct canvas *v, int point, int n_roles) {
    return (double)pile(v->c->alive[point], n_roles) / MIB;
}

static void draw_axes(const struct canvas *v) {
    char text[CHART_NUMBER_BYTES];
    double bottom = v->top + PLOT;
    for (int i = 0; i <= v->y.n_steps; i++) {
        double y = y_of(v, i * v->y.step);
        chart_line(v->f, LEFT, y, RIGHT, y, CHART_GRID, false);
        chart_label(v->f, LEFT - 7, y + 4, CHART_RIGHT, chart_number(i * v->y.step, text), CHART_NUMBER_BYTES);
    }
    for (int i = 0; i <= v->x.n_steps && i * v->x.step <= v->c->n_rows * (1 + 1e-9); i++) {
        double x = x_of(v, i * v->x.step);
        chart_line(v->f, x, bottom, x, bottom + 5, CHART_INK, false);
        chart_label(v->f, x, bottom + 18, CHART_MIDDLE, chart_number(i * v->x.step, text), CHART_NUMBER_BYTES);
    }
    chart_line(v->f, LEFT, bottom, RIGHT, bottom, CHART_INK, false);
    chart_label(v->f, LEFT - 7, v->top - 8, CHART_RIGHT, "MiB", 10);
    chart_label(v->f, RIGHT, bottom + 36, CHART_RIGHT,
                "rows of a step, in their order: F forward, B backward of a microbatch", 110);
}

/* Does an edge of the k-th role move here? Where none does the step is left out, which makes files of long steps much
 * smaller. */
static bool moves(const struct memory_chart *c, int point, int k) {
    return point == 0 || pile(c->alive[point], k) != pile(c->alive[point - 1], k) ||
           pile(c->alive[point], k + 1) != pile(c->alive[point - 1], k + 1);
}

/* An edge as a staircase, from left to right or back. */
static void draw_edge(const struct canvas *v, int k, int below, bool back) {
    const struct memory_chart *c = v->c;
    double end = c->n_rows;
    for (int j = 0, n = c->n_points; j < n; j++) {
        int i = back ? n - 1 - j : j, next = i + 1;
        if (!moves(c, i, k)) continue;
        while (!back && next < n && !moves(c, next, k)) next++;
        if (!back) end = next < n ? c->row[next] : c->n_rows;
        double y = y_of(v, mib_at(v, i, below));
        fprintf(v->f, " %.1f %.1f %.1f %.1f", x_of(v, back ? end : c->row[i]), y, x_of(v, back ? c->row[i] : end), y);
        end = c->row[i];
    }
}

/* Along the upper edge from left to right, and back along the lower one. */
static void draw_role(const struct canvas *v, int k) {
    const struct chart_series *s = &memory_chart_roles[ORDER[k]];
    fprintf(v->f, "<path fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.4\" d=\"M", chart_colour(s->colour));
    draw_edge(v, k, k + 1, false);
    draw_edge(v, k, k, true);
    fprintf(v->f, " Z\"><title>%s</title></path>\n", s->name);
}

/* A word that would run into the one before it is left out. So is a line less than MARK_GAP after the last one, with
 * its word: however many marks there are, the picture has no more than fit. */
static void draw_marks(const struct canvas *v) {
    double free_from = LEFT, line_from = LEFT;
    for (int i = 0; i < v->c->n_marks; i++) {
        const struct memory_mark *m = &v->c->marks[i];
        double x = x_of(v, m->row), end = i + 1 < v->c->n_marks ? x_of(v, m[1].row) : RIGHT;
        double width = chart_text_width((int)strlen(m->label));
        if (x < line_from) continue;
        line_from = x + MARK_GAP;
        chart_line(v->f, x, v->top - 4, x, v->top + PLOT, "#00000040", false);
        if (x + 2 < free_from || x + 2 + width > end + chart_text_width(1)) continue;
        chart_label(v->f, x + 2, v->top - 6, CHART_LEFT, m->label, MEMORY_CHART_LABEL_BYTES);
        free_from = x + 2 + width;
    }
}

static void draw_planned(const struct canvas *v) {
    char text[96], number[CHART_NUMBER_BYTES];
    double mib = (double)v->c->planned / MIB, y = y_of(v, mib);
    snprintf(text, sizeof text, "planned peaks of all roles together: %s MiB", chart_number(mib, number));
    chart_line(v->f, LEFT, y, RIGHT, y, CHART_INK, true);
    chart_words(v->f, RIGHT - 4, y - 5, CHART_RIGHT, text, 90, "");
}

void memory_chart_svg(const struct memory_chart *c, const char *title, FILE *f) {
    struct chart_series series[N_ROLES];
    unsigned used = 0;
    struct canvas v = {.c = c, .f = f, .x = chart_scale_of(c->n_rows)};
    double highest = HEADROOM * (double)c->planned / MIB;
    for (int i = 0; i < c->n_points; i++) {
        highest = fmax(highest, mib_at(&v, i, N_ROLES));
        for (int k = 0; k < N_ROLES; k++) used |= (unsigned)(c->alive[i][ORDER[k]] > 0) << k;
    }
    for (int k = 0; k < N_ROLES; k++) series[k] = memory_chart_roles[ORDER[k]];
    v.y = chart_scale_of(highest);
    v.top = chart_legend(NULL, series, N_ROLES, used, TOP) + (c->n_marks ? MARK_LINE : 6);
    chart_open(f, CHART_WIDTH, v.top + PLOT + AXIS, title);
    chart_legend(f, series, N_ROLES, used, TOP);
    draw_axes(&v);
    for (int k = 0; k < N_ROLES; k++)
        if (used >> k & 1) draw_role(&v, k);
    draw_marks(&v);
    draw_planned(&v);
    chart_close(f);
}
