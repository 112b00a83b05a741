#include "driver/compare/compare_pictures.h"

#include "driver/chart/chart.h"
#include "driver/compare/compare_pipeline.h"
#include "driver/compare/compare_report.h"
#include "driver/chart/memory_chart.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 1024, REASON_BYTES = COMPARE_REASON_BYTES + 64 };

/* ---- bars: a group a row ---- */
struct words { char name[NAME_BYTES], reason[REASON_BYTES]; };
struct bars { struct chart_group *groups; struct words *words; };

static void bars_fini(struct bars *b) {
    free(b->groups);
    free(b->words);
}

static void name_group(const struct compare_row *row, struct chart_group *g, struct words *w) {
    g->name = w->name;
    snprintf(w->name, sizeof w->name, "%.1000s", compare_row_name(row));
    if (row->status == OK) return;
    g->reason = w->reason;
    snprintf(w->reason, sizeof w->reason, "%s: %s %s", compare_row_status(row), status_name(row->status), row->reason);
}

static enum status draw_bars(const struct compare_row *rows, int n_rows,
                             void (*fill)(const struct compare_row *, struct chart_group *), struct chart_bars chart,
                             FILE *f) {
    struct bars b = {calloc((size_t)n_rows, sizeof *b.groups), calloc((size_t)n_rows, sizeof *b.words)};
    enum status status = b.groups && b.words ? OK : FAIL(E_MEMORY, "no memory for a picture of %d strategies", n_rows);
    for (int i = 0; status == OK && i < n_rows; i++) {
        name_group(&rows[i], &b.groups[i], &b.words[i]);
        if (rows[i].status == OK) fill(&rows[i], &b.groups[i]);
    }
    chart.groups = b.groups;
    chart.n_groups = n_rows;
    if (status == OK) chart_bars_svg(&chart, f);
    bars_fini(&b);
    return status;
}

/* ---- memory ---- */
static void add_memory(struct chart_group *g, const char *label, const int64_t bytes[N_ROLES]) {
    struct chart_bar *bar = &g->bar[g->n_bars++];
    bar->label = label;
    for (enum role role = 0; role < N_ROLES; role++) bar->value[role] = (double)bytes[role] / (1 << 20);
}

static void fill_memory(const struct compare_row *row, struct chart_group *g) {
    const struct compare_rank *rank = &row->ranks[compare_fullest(row)];
    static const char *const labels[N_TIERS] = {"predicted", "on host", "on disk"};
    for (enum tier tier = 0; tier < N_TIERS; tier++) {
        if (tier != TIER_DEVICE && !roles_total(rank->predicted[tier])) continue;
        add_memory(g, labels[tier], rank->predicted[tier]);
        add_memory(g, "measured", rank->measured[tier]);
    }
}

static enum status draw_memory(const struct compare_row *rows, int n_rows, FILE *f) {
    return draw_bars(rows, n_rows, fill_memory, (struct chart_bars){.title = "Memory of the fullest rank, by role",
                                                                    .unit = "MiB", .series = memory_chart_roles,
                                                                    .n_series = N_ROLES}, f);
}

/* ---- speed ---- */
static void fill_throughput(const struct compare_row *row, struct chart_group *g) {
    g->n_bars = 1;
    g->bar[0].value[0] = row->tokens_per_s;
}

static enum status draw_throughput(const struct compare_row *rows, int n_rows, FILE *f) {
    static const struct chart_series one = {"tokens", CHART_BLUE};
    return draw_bars(rows, n_rows, fill_throughput, (struct chart_bars){.title = "Throughput", .unit = "tokens/s",
                                                                        .series = &one, .n_series = 1}, f);
}

enum { PART_COMPUTE, PART_DP, PART_TP, PART_PP, PART_BUBBLE, PART_REST, N_PARTS };
static const struct chart_series TIMES[N_PARTS] = {
    {"computing", CHART_BLUE}, {"waiting for dp", CHART_ORANGE}, {"tp", CHART_GREEN}, {"pp", CHART_PURPLE},
    {"bubble (pipeline neighbors)", CHART_PALE}, {"rest", CHART_VERMILION},
};

/* What is not waiting is computing. The bubble is part of what was waited for pp. */
static void fill_time(const struct compare_row *row, struct chart_group *g) {
    struct compare_summary s = compare_summarise(row);
    double *part = g->bar[0].value, step_s = 0, waited = 0;
    for (int i = 0; i < row->n_ranks; i++) step_s += row->ranks[i].step_s / row->n_ranks;
    g->n_bars = 1;
    part[PART_DP] = compare_along(s.waited_s, AXIS_DP);
    part[PART_TP] = s.waited_s[AXIS_TP];
    part[PART_BUBBLE] = fmin(s.bubble_s, s.waited_s[AXIS_PP]);
    part[PART_PP] = s.waited_s[AXIS_PP] - part[PART_BUBBLE];
    part[PART_REST] = compare_rest_of(s.waited_s);
    for (int i = PART_DP; i < N_PARTS; i++) waited += part[i];
    part[PART_COMPUTE] = step_s < waited ? 0 : step_s - waited;      /* NaN stays NaN */
    for (int i = 0; i < N_PARTS; i++) part[i] *= 1e3;
}

static enum status draw_time(const struct compare_row *rows, int n_rows, FILE *f) {
    return draw_bars(rows, n_rows, fill_time, (struct chart_bars){.title = "Where the time of a step goes",
                                                                  .unit = "ms, mean of the ranks", .series = TIMES,
                                                                  .n_series = N_PARTS}, f);
}

enum { WIRE_DP, WIRE_TP, WIRE_PP, WIRE_REST, N_WIRES };
static const struct chart_series WIRES[N_WIRES] = {{"dp", CHART_ORANGE}, {"tp", CHART_GREEN}, {"pp", CHART_PURPLE},
                                                   {"rest (tied embedding; loss, norm)", CHART_VERMILION}};

static double sent_by(const struct compare_rank *rank) {
    double sum = 0;
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < N_MESH_AXES; axis++) sum += rank->sent_bytes[axis];
    return sum;
}

static void fill_wire(const struct compare_row *row, struct chart_group *g) {
    const struct compare_rank *most = row->ranks;
    for (int i = 1; i < row->n_ranks; i++)
        if (sent_by(&row->ranks[i]) > sent_by(most)) most = &row->ranks[i];
    const double *sent = most->sent_bytes, part[N_WIRES] = {compare_along(sent, AXIS_DP), sent[AXIS_TP],
                                                            sent[AXIS_PP], compare_rest_of(sent)};
    g->n_bars = 1;
    for (int i = 0; i < N_WIRES; i++) g->bar[0].value[i] = part[i] / (1 << 20);
}

static enum status draw_wire(const struct compare_row *rows, int n_rows, FILE *f) {
    return draw_bars(rows, n_rows, fill_wire, (struct chart_bars){.title = "Bytes on the wire in a step, by axis",
                                                                  .unit = "MiB sent by the rank that sends most",
                                                                  .series = WIRES, .n_series = N_WIRES}, f);
}

/* ---- memory through a step ---- */
enum { TIMELINE_GAP = 14 };

static double highest_plan(const struct compare_row *rows, int n_rows) {
    double most = 0;
    for (int i = 0; i < n_rows; i++) most = fmax(most, rows[i].timeline.planned);
    return most;
}

/* Under each other, on one scale. *n: how many. Returns their height. */
static double pile_timelines(const struct compare_row *rows, int n_rows, FILE *f, int *n) {
    char title[NAME_BYTES];
    double y = 0, most = highest_plan(rows, n_rows);
    *n = 0;
    for (int i = 0; i < n_rows; i++) {
        if (!rows[i].timeline.n_points) continue;
        snprintf(title, sizeof title, "%.900s: rank %d of %d", compare_row_name(&rows[i]), compare_fullest(&rows[i]),
                 rows[i].n_ranks);
        fprintf(f, "<g transform=\"translate(0 %.0f)\">\n", y);
        y += TIMELINE_GAP + memory_chart_svg(&rows[i].timeline, title, most, f);
        fprintf(f, "</g>\n");
        ++*n;
    }
    return y - TIMELINE_GAP;
}

static enum status draw_timeline(const struct compare_row *rows, int n_rows, FILE *f) {
    char *text = NULL;
    size_t bytes;
    int n;
    FILE *charts = open_memstream(&text, &bytes);
    if (!charts) return FAIL(E_MEMORY, "no memory for a picture");
    double height = pile_timelines(rows, n_rows, charts, &n);
    if (fclose(charts)) return FAIL(E_MEMORY, "no memory for a picture");
    if (n)
        fprintf(f,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d "
                "%.0f\">\n<title>Memory over a step</title>\n%s</svg>\n",
                CHART_WIDTH, height, CHART_WIDTH, height, text);
    free(text);
    return OK;
}

/* ---- all of them ---- */
const struct compare_picture compare_pictures[] = {
    {"memory", "Memory",
     "Bytes of the rank whose planned total is largest. Predicted: the static memory plan, made before the first step. "
     "Measured: the high-water "
     "mark of bytes that were written, in arenas that started full of canaries. The two have to agree to the byte.",
     draw_memory},
    {"throughput", "Throughput", "Global batch x sequence length / median time of a timed step.", draw_throughput},
    {"time", "Time of a step",
     "Mean of the ranks over the timed steps. What a rank does not wait is counted as computing; communication that "
     "hides behind computation is not seen.",
     draw_time},
    {"wire", "Bytes on the wire",
     "Algorithm bytes, as a ring sends them: all-reduce 2 S (n-1)/n, all-gather and reduce-scatter S (n-1)/n, send S.",
     draw_wire},
    {"pipeline", "Pipelines",
     "Predicted: the schedule run against a clock. All stages are alike, a forward or backward (with its replays) is "
     "as long as its floating-point "
     "operations, mean of the ranks, and messages take no time. Traced: the fastest of up to four timed steps as it "
     "was, the first replica's ranks on one clock; ranks that share "
     "a core take turns inside of their boxes. Predicted charts have one scale, and traced ones another.",
     compare_pipeline_draw},
    {"timeline", "Memory over a step",
     "Bytes alive in each row of a step, on the rank whose planned total is largest; from the plan alone. What is "
     "allocated is the dashed line: the peaks of the roles, which need not come at one time, and what packing wastes.",
     draw_timeline},
};
const int compare_n_pictures = sizeof compare_pictures / sizeof *compare_pictures;

struct drawing { char *text; size_t bytes; };
static int write_drawing(FILE *f, const void *self) {
    const struct drawing *d = self;
    return fwrite(d->text, 1, d->bytes, f) != d->bytes;
}

static enum status write_picture(const char *dir, const struct compare_picture *p, const struct compare_row *rows,
                                 int n_rows) {
    char name[64], path[PATH_MAX];
    struct drawing d = {0};
    FILE *f = open_memstream(&d.text, &d.bytes);
    if (!f) return FAIL(E_MEMORY, "no memory for a picture");
    enum status status = p->draw(rows, n_rows, f);
    if (fclose(f)) status = FAIL(E_MEMORY, "no memory for a picture");
    snprintf(name, sizeof name, "%s.svg", p->name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (status == OK && d.bytes) status = compare_report_replace(dir, name, write_drawing, &d);
    else unlink(path);
    free(d.text);
    return status;
}

enum status compare_pictures_write(const char *dir, const struct compare_row *rows, int n_rows) {
    for (int i = 0; i < compare_n_pictures; i++) TRY(write_picture(dir, &compare_pictures[i], rows, n_rows));
    return OK;
}
