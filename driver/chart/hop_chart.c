#include "driver/chart/hop_chart.h"

#include "driver/chart/chart.h"
#include "lib/base/grow.h"
#include <stdio.h>
#include <stdlib.h>

enum { LEFT = 80, TOP = 70, ROW = 44, PLOT = 900, FOOT = 50, BOX = 12 };

struct event { int rank, peer; enum hop_kind kind; double from, to; };
struct canvas {
    const struct hop_shape *shape;
    struct event *event;
    int n;
    double scale;
    FILE *f;
};

static void collect(void *self, int rank, const struct hop_row *hop, double from, double to) {
    struct canvas *c = self;
    if (hop->kind == HOP_COPY) return;
    c->event = table_grow(c->event, c->n, sizeof *c->event);
    c->event[c->n++] = (struct event){rank, hop->peer, hop->kind, from, to};
}

static double x_of(const struct canvas *c, double seconds) { return LEFT + seconds * c->scale; }
static double y_of(int rank) { return TOP + rank * ROW; }
static bool is_between(const struct canvas *c, const struct event *e) {
    return hop_node(c->shape, e->rank) != hop_node(c->shape, e->peer);
}

/* The k-th message that `to` takes from `from` is the k-th that `from` sends it. */
static const struct event *sent_as(const struct canvas *c, const struct event *taken) {
    int k = 0;
    for (const struct event *e = c->event; e < taken; e++)
        k += e->kind != HOP_SEND && e->rank == taken->rank && e->peer == taken->peer;
    for (const struct event *e = c->event; e < c->event + c->n; e++)
        if (e->kind == HOP_SEND && e->rank == taken->peer && e->peer == taken->rank && k-- == 0) return e;
    return NULL;
}

static void draw_event(const struct canvas *c, const struct event *e) {
    char hint[128];
    double x = x_of(c, e->from), width = (e->to - e->from) * c->scale;
    const char *what = e->kind == HOP_SEND ? "sends to" : e->kind == HOP_ADD ? "adds from" : "has from";
    snprintf(hint, sizeof hint, "rank %d %s rank %d: %.4g to %.4g ms", e->rank, what, e->peer, 1e3 * e->from,
             1e3 * e->to);
    if (e->kind == HOP_SEND)
        chart_box(c->f, x, y_of(e->rank), width, BOX, is_between(c, e) ? CHART_ORANGE : CHART_BLUE, hint);
    if (e->kind == HOP_ADD && width > 0) chart_box(c->f, x, y_of(e->rank) + BOX + 2, width, BOX, CHART_GREEN, hint);
    const struct event *sent = e->kind == HOP_SEND ? NULL : sent_as(c, e);
    if (sent)
        chart_line(c->f, x_of(c, sent->to), y_of(sent->rank) + BOX, x, y_of(e->rank) + BOX, chart_colour(CHART_GREY),
                   false);
}

static void draw(const struct canvas *c, const struct comm_algorithm *algorithm, double seconds) {
    char text[128];
    snprintf(text, sizeof text, "%s of %d ranks by %s: %.4g ms, simulated", comm_op_name(c->shape->op), c->shape->n,
             algorithm->name, 1e3 * seconds);
    chart_open(c->f, LEFT + PLOT + 30, y_of(c->shape->n) + FOOT, text);
    static const struct chart_series series[] = {
        {"sends within its node", CHART_BLUE}, {"sends to another node", CHART_ORANGE}, {"adds", CHART_GREEN}};
    unsigned used = 0;
    for (int i = 0; i < c->n; i++)
        used |= c->event[i].kind == HOP_SEND  ? 1u << is_between(c, &c->event[i])
                : c->event[i].kind == HOP_ADD ? 4u
                                              : 0u;
    chart_legend(c->f, series, 3, used, CHART_TITLE_BASE + 10);
    for (int r = 0; r < c->shape->n; r++) {
        snprintf(text, sizeof text, "rank %d", r);
        chart_label(c->f, LEFT - 8, y_of(r) + BOX, CHART_RIGHT, text, 16);
        chart_line(c->f, LEFT, y_of(r) + BOX + 1, LEFT + PLOT, y_of(r) + BOX + 1, CHART_GRID, false);
    }
    for (int i = 0; i < c->n; i++) draw_event(c, &c->event[i]);
    chart_label(c->f, LEFT, y_of(c->shape->n) + 20, CHART_LEFT, "0", 8);
    snprintf(text, sizeof text, "%.4g ms", 1e3 * seconds);
    chart_label(c->f, LEFT + PLOT, y_of(c->shape->n) + 20, CHART_RIGHT, text, 16);
    chart_close(c->f);
}

enum status hop_chart(const struct comm_algorithm *algorithm, const struct hop_shape *shape, int64_t element_bytes,
                      const struct hop_links *links, const char *path) {
    struct canvas c = {.shape = shape};
    double seconds;
    enum status status = hop_simulate(algorithm, shape, element_bytes, links, collect, &c, &seconds);
    c.scale = seconds > 0 ? PLOT / seconds : 1;
    if (status == OK) status = chart_file_open(path, &c.f);
    if (c.f) {
        draw(&c, algorithm, seconds);
        status = chart_file_close(path, c.f);
    }
    free(c.event);
    return status;
}
