/* A Gantt chart as SVG: forward blue, backward orange, weight gradients green, idle grey; later chunks are darker, and
 * the second direction is hatched. */
#include "driver/chart/schedule_chart.h"

#include "driver/chart/chart.h"
#include <math.h>

enum { LEFT = 74, TOP = 62, RIGHT = 26, LEGEND = 86, MAX_TITLES = 20000 };
enum { MAX_PLOT = 1600, MIN_PLOT = 560, MIN_SPLIT = 790, ROOMY_BOX = 24 };   /* MIN_SPLIT: room for W's legend */

/* scale: pixels per unit of time; row: pixels per stage; plot: pixels of the time line */
struct canvas { const struct schedule_chart *c; FILE *f; double scale, row, plot; };

static struct canvas canvas_of(const struct schedule_chart *c, FILE *f) {
    double shortest = fmin(c->times.tape[TAPE_F], c->times.tape[TAPE_B]), makespan = c->timeline.makespan;
    double least = c->row->split_weight ? MIN_SPLIT : MIN_PLOT;
    double plot = c->plot > 0 ? c->plot : fmax(least, fmin(MAX_PLOT, makespan / shortest * ROOMY_BOX));
    double row = fmax(5, fmin(26, 900.0 / c->n_stages));
    return (struct canvas){c, f, plot / makespan, row, plot};
}

static double x_of(const struct canvas *v, double time) { return LEFT + time * v->scale; }
static double y_of(const struct canvas *v, int stage) { return TOP + stage * v->row; }

/* An action's name, and the name's width in pixels. */
static const struct { const char *name; int width; } KINDS[N_TAPES] = {
    [ACTION_F] = {"forward", 50}, [ACTION_B] = {"backward", 60}, [ACTION_W] = {"weight gradients", 98}};

/* ---- colours ---- */
static double depth_of_shade(const struct canvas *v, int chunk) {
    return v->c->n_chunks == 1 ? 0.4 : (double)chunk / (v->c->n_chunks - 1);
}

static const char *colour(const struct canvas *v, enum action_kind kind, int chunk) {
    static const int light[N_TAPES][3] = {{200, 222, 243}, {253, 214, 170}, {205, 233, 205}},
                     dark[N_TAPES][3] = {{24, 92, 164}, {198, 84, 8}, {34, 120, 60}};
    static char text[8];
    double t = depth_of_shade(v, chunk);
    int rgb[3];
    for (int i = 0; i < 3; i++) rgb[i] = (int)lround(light[kind][i] + t * (dark[kind][i] - light[kind][i]));
    snprintf(text, sizeof text, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
    return text;
}
static const char *ink(const struct canvas *v, int chunk) {
    return depth_of_shade(v, chunk) > 0.55 ? "#ffffff" : "#1a1a1a";
}

/* ---- boxes ---- */
static void box(const struct canvas *v, double x, double y, double width, double height, const char *fill) {
    fprintf(v->f,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"#ffffff\" "
            "stroke-width=\"%s\"", x, y, width, height, fill, width < 4 ? "0.3" : "1");
}

/* Hatch a box of the second direction. */
static void hatch(const struct canvas *v, double x, double y, double width, double height, int chunk) {
    if (v->c->row->place->n_pipes > 1 && chunk == 1)
        fprintf(v->f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"url(#hatch)\"/>\n", x, y,
                width, height);
}

static void number(const struct canvas *v, double x, double y, double width, double height, int n, const char *fill) {
    double needed = 4 + 6.2 * (n < 10 ? 1 : n < 100 ? 2 : n < 1000 ? 3 : 6);
    if (width < needed || height < 12) return;
    fprintf(v->f, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\" fill=\"%s\">%d</text>\n", x + width / 2,
            y + height / 2 + 4, fill, n);
}

static void draw_action(const struct canvas *v, int stage, const struct action *a, struct timeline_span span,
                        bool titled) {
    double x = x_of(v, span.start), y = y_of(v, stage), width = (span.end - span.start) * v->scale;
    box(v, x, y + 1, width, v->row - 2, colour(v, a->kind, a->chunk));
    if (titled)
        fprintf(v->f, "><title>%s of microbatch %d, chunk %d: %.6g to %.6g</title></rect>\n",
                KINDS[a->kind].name, a->microbatch, a->chunk, span.start, span.end);
    else fprintf(v->f, "/>\n");
    hatch(v, x, y + 1, width, v->row - 2, a->chunk);
    number(v, x, y, width, v->row, a->microbatch, ink(v, a->chunk));
}

static void draw_stage(const struct canvas *v, int stage) {
    const struct schedule *s = &v->c->stages[stage];
    bool titled = (double)s->n * v->c->n_stages < MAX_TITLES, labelled = v->row >= 12 || stage % 10 == 0;
    box(v, LEFT, y_of(v, stage) + 1, v->plot, v->row - 2, "#eeeeec");
    fprintf(v->f, "/>\n");
    if (labelled)
        fprintf(v->f, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">stage %d</text>\n", LEFT - 8,
                y_of(v, stage) + v->row / 2 + 4, stage);
    for (int i = 0; i < s->n; i++)
        if (action_is_compute(s->actions[i].kind))
            draw_action(v, stage, &s->actions[i], v->c->timeline.span[stage][i], titled);
}

/* ---- title, axis and legend ---- */
static double width_of(const struct canvas *v) { return LEFT + v->plot + RIGHT; }
static double height_of(const struct canvas *v) { return y_of(v, v->c->n_stages) + LEGEND; }

static void draw_title(const struct canvas *v) {
    const struct schedule_chart *c = v->c;
    if (c->heading) markup_short(v->f, c->heading, (int)((width_of(v) - LEFT) / 8.2));
    else schedule_chart_title(c, v->f);
    fprintf(v->f, "</text>\n<text x=\"%d\" y=\"45\">", LEFT);
    if (c->heading) {
        schedule_chart_title(c, v->f);
        fprintf(v->f, "; ");
    }
}

static void draw_head(const struct canvas *v) {
    const struct schedule_chart *c = v->c;
    double width = width_of(v), height = height_of(v);
    fprintf(v->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#1a1a1a\">\n",
            width, height, width, height);
    if (c->row->place->n_pipes > 1)
        fprintf(v->f, "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                      "patternTransform=\"rotate(45)\"><line y2=\"6\" stroke=\"#ffffff\" stroke-width=\"2.4\" "
                      "stroke-opacity=\"0.55\"/></pattern></defs>\n");
    fprintf(v->f, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fdfdfb\"/>\n<text x=\"%d\" y=\"26\" font-size=\"15\" "
            "font-weight=\"bold\">", LEFT);
    draw_title(v);
    int digits = c->unit ? 4 : 6;                                    /* times with a unit are measured or estimated,
                                                                      * and 4 digits suffice */
    fprintf(v->f, "a step takes %.*g%s%s: %.*g of work, %.*g idle (%.1f%% of the step)</text>\n", digits,
            c->timeline.makespan, c->unit ? " " : "", c->unit ? c->unit : "", digits, c->work, digits, c->idle,
            100 * c->idle / c->timeline.makespan);
}

/* The distance of ticks: 1, 2 or 5 times a power of ten, and at least 60 pixels. */
static double tick_step(const struct canvas *v) {
    double least = 60 / v->scale, power = pow(10, floor(log10(least)));
    return least <= power ? power : least <= 2 * power ? 2 * power : least <= 5 * power ? 5 * power : 10 * power;
}

static void draw_axis(const struct canvas *v) {
    double y = y_of(v, v->c->n_stages) + 4, step = tick_step(v);
    fprintf(v->f, "<line x1=\"%d\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#1a1a1a\"/>\n", LEFT, y, LEFT + v->plot,
            y);
    for (int i = 0; i * step <= v->c->timeline.makespan * (1 + 1e-9); i++) {
        double x = x_of(v, i * step);
        fprintf(v->f,
                "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#1a1a1a\"/><text x=\"%.2f\" y=\"%.2f\" "
                "text-anchor=\"middle\">%.4g</text>\n",
                x, y, x, y + 5, x, y + 18, i * step);
    }
    fprintf(v->f, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%s</text>\n", LEFT - 20, y + 18,
            v->c->unit ? v->c->unit : "time");
}

/* Draw "forward" and one swatch per chunk, with its number if that fits. Returns the x of the next entry. */
static double draw_swatches(const struct canvas *v, double x, double y, enum action_kind kind) {
    int n = v->c->n_chunks;
    double width = n <= 8 ? 22 : 176.0 / n;
    fprintf(v->f, "<text x=\"%.2f\" y=\"%.2f\">%s%s</text>\n", x, y + 12, KINDS[kind].name,
            n <= 1                          ? ""
            : v->c->row->place->n_pipes > 1 ? ", way"
                                            : ", chunk");
    x += KINDS[kind].width + (n > 1 ? 42 : 0);
    for (int k = 0; k < n; k++, x += width) {
        box(v, x, y, width, 16, colour(v, kind, k));
        fprintf(v->f, "/>\n");
        hatch(v, x, y, width, 16, k);
        if (n > 1) number(v, x, y, width, 16, k, ink(v, k));
    }
    return x + 30;
}

static void draw_legend(const struct canvas *v) {
    double y = y_of(v, v->c->n_stages) + 46, x = draw_swatches(v, LEFT, y, ACTION_F);
    x = draw_swatches(v, x, y, ACTION_B);
    if (v->c->row->split_weight) x = draw_swatches(v, x, y, ACTION_W);
    fprintf(v->f, "<text x=\"%.2f\" y=\"%.2f\">idle</text>\n", x, y + 12);
    box(v, x + 28, y, 22, 16, "#eeeeec");
    fprintf(v->f, "/>\n<text x=\"%.2f\" y=\"%.2f\">numbers in boxes: microbatches</text>\n", x + 80, y + 12);
}

void schedule_chart_svg(const struct schedule_chart *c, FILE *f) {
    struct canvas v = canvas_of(c, f);
    draw_head(&v);
    for (int i = 0; i < c->n_stages; i++) draw_stage(&v, i);
    draw_axis(&v);
    draw_legend(&v);
    fprintf(f, "</svg>\n");
}
