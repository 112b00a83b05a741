/* A Gantt chart in letters. */
#include "driver/chart/schedule_chart.h"

#include <math.h>

enum { MAX_WIDTH = 200, WIDTH = 116, MAX_ROWS = 64, MAX_LETTERS = 26 };

/* A column stands for `unit` of time and has `cell` characters: a letter, a microbatch's number and a blank. If the
 * text is too wide, a cell has no blank; if still too wide, one character. */
struct grid { double unit; int columns, cell; bool rounded; };

static bool is_multiple(double x, double unit) { return fabs(x / unit - round(x / unit)) < 1e-9; }

static bool all_multiples(const struct schedule_chart *c, double unit) {
    const double *tape = c->times.tape;
    return is_multiple(tape[TAPE_B], unit) && is_multiple(tape[TAPE_W], unit) && is_multiple(c->transfer, unit);
}

/* The largest fraction of a chunk's forward of which all times are multiples; if there is none, a rounded sixtieth. */
static double common_unit(const struct schedule_chart *c) {
    double forward = c->times.tape[TAPE_F];
    for (int k = 1; k < 60; k++)
        if (all_multiples(c, forward / k)) return forward / k;
    return forward / 60;
}

static int digits(int n) { return n < 10 ? 1 : 1 + digits(n / 10); }

static struct grid grid_of(const struct schedule_chart *c) {
    struct grid g = {.unit = common_unit(c), .cell = 2 + digits(c->stages[0].n_microbatches - 1)};
    double makespan = c->timeline.makespan;
    g.rounded = makespan / g.unit > MAX_WIDTH || !all_multiples(c, g.unit);
    if (makespan / g.unit > MAX_WIDTH) g.unit = makespan / MAX_WIDTH;
    g.columns = (int)round(makespan / g.unit);
    if (g.columns * g.cell > WIDTH) g.cell--;
    if (g.columns * g.cell > WIDTH) g.cell = 1;
    return g;
}

/* A column must not be longer than an action, because it would hide actions. */
static bool fits(const struct schedule_chart *c, const struct grid *g) {
    const double *tape = c->times.tape;
    double shortest = fmin(tape[TAPE_F], tape[TAPE_B]);
    if (c->row->split_weight) shortest = fmin(shortest, tape[TAPE_W]);
    return g->unit <= shortest && c->n_stages <= MAX_ROWS && c->n_chunks <= MAX_LETTERS;
}

/* F, B, W in chunk 0 and f, b, w in chunk 1. With more chunks a, b, c ... for forward, A, B, C ... for backward. */
static char letter(const struct schedule_chart *c, const struct action *a) {
    if (c->n_chunks <= 2) return (a->chunk ? "fbw" : "FBW")[a->kind];
    return a->kind == ACTION_W ? 'w' : (char)((a->kind == ACTION_F ? 'a' : 'A') + a->chunk);
}

/* Write "F12-----" into the action's columns; the last character is a blank if it fits. */
static void draw_action(const struct schedule_chart *c, const struct grid *g, const struct action *a,
                        struct timeline_span span, char *row) {
    int from = (int)round(span.start / g->unit) * g->cell, end = (int)round(span.end / g->unit) * g->cell;
    char label[16];
    int n = snprintf(label, sizeof label, "%c%d", letter(c, a), a->microbatch);
    for (int x = from; x < end; x++)
        if (g->cell == 1) row[x] = label[0];
        else row[x] = x - from < n ? label[x - from] : x == end - 1 ? ' ' : '-';
}

static void print_row(const struct schedule_chart *c, const struct grid *g, int stage, FILE *f) {
    char row[MAX_WIDTH + 1];
    int width = g->columns * g->cell;
    for (int x = 0; x < width; x++) row[x] = x % g->cell == 0 ? '.' : ' ';
    row[width] = 0;
    for (int i = 0; i < c->stages[stage].n; i++) {
        const struct action *a = &c->stages[stage].actions[i];
        if (action_is_compute(a->kind)) draw_action(c, g, a, c->timeline.span[stage][i], row);
    }
    while (width > 0 && row[width - 1] == ' ') row[--width] = 0;
    fprintf(f, "stage %2d  %s\n", stage, row);
}

/* Mark times, at columns far enough apart for their numbers. */
static void print_axis(const struct grid *g, FILE *f) {
    int every = (8 + g->cell - 1) / g->cell;
    if (every > 2) every = (every + 4) / 5 * 5;
    fprintf(f, "time      ");
    for (int x = 0; x < g->columns; x += every) {
        int room = every < g->columns - x ? every * g->cell : 0;
        fprintf(f, "|%-*.4g", room > 0 ? room - 1 : 0, x * g->unit);
    }
    fputc('\n', f);
}

static void print_legend(const struct schedule_chart *c, const struct grid *g, FILE *f) {
    const char *number = g->cell > 1 ? "0" : "", *of = g->cell > 1 ? " of microbatch 0" : "";
    if (c->n_chunks <= 2) fprintf(f, "F%s forward%s, B%s backward", number, of, number);
    else fprintf(f, "a%s forward%s in a stage's first chunk, A%s backward; b, B its second, ...", number, of, number);
    if (c->row->split_weight) fprintf(f, ", %c%s its weight gradients", c->n_chunks <= 2 ? 'W' : 'w', number);
    if (c->row->place->n_pipes > 1) fprintf(f, "; small letters: the other direction");
    else if (c->n_chunks == 2) fprintf(f, "; small letters: a stage's second chunk");
    fprintf(f, "; . idle; a column is %s%.4g of time\n", g->rounded ? "(rounded) " : "", g->unit);
}

/* For each action of this kind, print the number of updates since the last flush of the weights that it reads. */
static void print_reads(const struct schedule_chart *c, const struct schedule *s, enum action_kind kind, FILE *f) {
    int done = 0;                                                    /* backwards; n_microbatches make an update */
    fprintf(f, "  %s", action_name(kind));
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        int newest = done / c->n_microbatches;
        if (a->kind == kind) fprintf(f, " %d", newest > a->age ? newest - a->age : 0);
        done += a->kind == ACTION_B;
    }
}

static void print_versions(const struct schedule_chart *c, FILE *f) {
    fprintf(f, "\nupdates that the weights have had which microbatch 0, 1, 2 ... reads, forward and backward\n");
    for (int i = 0; i < c->n_stages; i++) {
        int n = schedule_versions(&c->stages[i]);
        fprintf(f, "stage %2d", i);
        print_reads(c, &c->stages[i], ACTION_F, f);
        print_reads(c, &c->stages[i], ACTION_B, f);
        fprintf(f, "  %d version%s\n", n, n == 1 ? "" : "s");
    }
}

void schedule_chart_text(const struct schedule_chart *c, FILE *f) {
    struct grid g = grid_of(c);
    if (!fits(c, &g)) {
        fprintf(f, "(too large to draw in letters; --svg FILE draws it)\n");
        return;
    }
    print_axis(&g, f);
    for (int i = 0; i < c->n_stages; i++) print_row(c, &g, i, f);
    print_legend(c, &g, f);
    if (c->row->endless && c->stages[0].n_microbatches <= 50) print_versions(c, f);
}
