/* A table is a list of columns, a column a title and a function that writes a cell. Columns are as wide as their widest
 * cell, and those without any text are left out. */
#include "driver/compare/compare_table.h"

#include "driver/compare/compare_forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 16, NAME_WIDTH = 32, LINE_WIDTH = 140 };

/* ---- cells ---- */
void compare_mib(double bytes, char *text, size_t text_bytes) {
    double mib = bytes / (1 << 20);
    snprintf(text, text_bytes, "%.*f", fabs(mib) < 100 ? 2 : fabs(mib) < 1000 ? 1 : 0, mib);
}

static void cell_mib(double bytes, char *text) { compare_mib(bytes, text, COMPARE_CELL_BYTES); }
static void cell_percent(double share, char *text) { snprintf(text, COMPARE_CELL_BYTES, "%.1f", 100 * share); }

static void cell_role(const struct compare_entry *e, int role, char *text) {
    cell_mib((double)e->sum.predicted[role], text);
}
static void cell_rare_role(const struct compare_entry *e, int role, char *text) {
    if (e->sum.predicted[role]) cell_role(e, role, text);
}
static void cell_total(const struct compare_entry *e, int which, char *text) {
    (void)which;
    cell_mib((double)e->sum.predicted_tier[TIER_DEVICE], text);
}
static void cell_measured(const struct compare_entry *e, int which, char *text) {
    (void)which;
    cell_mib((double)e->sum.measured_tier[TIER_DEVICE], text);
}
static void cell_tier(const struct compare_entry *e, int tier, char *text) {
    if (e->sum.predicted_tier[tier]) cell_mib((double)e->sum.predicted_tier[tier], text);
}
static void cell_resident(const struct compare_entry *e, int which, char *text) {
    (void)which;
    cell_mib((double)e->sum.resident, text);
}
static void cell_unaccounted(const struct compare_entry *e, int which, char *text) {
    (void)which;
    cell_mib((double)e->sum.unaccounted, text);
}

static void cell_ranks(const struct compare_entry *e, int which, char *text) {
    (void)which;
    snprintf(text, COMPARE_CELL_BYTES, "%d x %d", e->row->n_ranks, e->row->n_threads);
}
static void cell_step(const struct compare_entry *e, int which, char *text) {
    (void)which;
    snprintf(text, COMPARE_CELL_BYTES, "%.1f", 1e3 * e->row->step_s);
}
static void cell_tokens(const struct compare_entry *e, int which, char *text) {
    (void)which;
    snprintf(text, COMPARE_CELL_BYTES, "%.0f", e->row->tokens_per_s);
}
double compare_along(const double by_axis[N_MESH_AXES], enum mesh_axis axis) {
    return by_axis[axis] + (axis == AXIS_DP ? by_axis[AXIS_SHARD] + by_axis[AXIS_REPLICATE] : 0);
}
double compare_rest_of(const double by_axis[N_MESH_AXES]) {
    const unsigned shown = 1 << AXIS_TP | 1 << AXIS_DP | 1 << AXIS_SHARD | 1 << AXIS_REPLICATE | 1 << AXIS_PP;
    double rest = 0;
    for (enum mesh_axis a = AXIS_SELF + 1; a < N_MESH_AXES; a++)
        if (!(shown >> a & 1)) rest += by_axis[a];
    return rest;
}
static void cell_sent(const struct compare_entry *e, int axis, char *text) {
    cell_mib(compare_along(e->sum.sent_bytes, (enum mesh_axis)axis), text);
}
static void cell_sent_rest(const struct compare_entry *e, int which, char *text) {
    (void)which;
    cell_mib(compare_rest_of(e->sum.sent_bytes), text);
}
static void cell_waited(const struct compare_entry *e, int axis, char *text) {
    snprintf(text, COMPARE_CELL_BYTES, "%.1f", 1e3 * compare_along(e->sum.waited_s, (enum mesh_axis)axis));
}
static void cell_waited_rest(const struct compare_entry *e, int which, char *text) {
    (void)which;
    snprintf(text, COMPARE_CELL_BYTES, "%.1f", 1e3 * compare_rest_of(e->sum.waited_s));
}
static void cell_bubble(const struct compare_entry *e, int which, char *text) {
    (void)which;
    cell_percent(e->sum.bubble_share, text);
}
static void cell_extra_flops(const struct compare_entry *e, int which, char *text) {
    (void)which;
    cell_percent(e->sum.extra_flops, text);
}
static void cell_spread(const struct compare_entry *e, int which, char *text) {
    (void)which;
    if (e->row->n_passes > 1) cell_percent(compare_row_spread(e->row), text);
}
static void cell_predicted(const struct compare_entry *e, int which, char *text) {
    (void)which;
    if (e->row->predicted_step_s > 0) snprintf(text, COMPARE_CELL_BYTES, "%.1f", 1e3 * e->row->predicted_step_s);
}
static void cell_predicted_work(const struct compare_entry *e, int which, char *text) {
    (void)which;
    if (e->row->predicted_work_s > 0 && e->row->work_s > 0)
        snprintf(text, COMPARE_CELL_BYTES, "%.1f", 1e3 * e->row->predicted_work_s);
}
static void cell_work(const struct compare_entry *e, int which, char *text) {
    (void)which;
    if (e->row->work_s > 0) snprintf(text, COMPARE_CELL_BYTES, "%.1f", 1e3 * e->row->work_s);
}
static void cell_rank(const struct compare_entry *e, int which, char *text) {
    if (e->row->predicted_step_s > 0) snprintf(text, COMPARE_CELL_BYTES, "%d", which ? e->predicted_rank : e->rank);
}
static void cell_loss(const struct compare_entry *e, int which, char *text) {
    (void)which;
    snprintf(text, COMPARE_CELL_BYTES, "%.6f", e->row->loss);
}
static void cell_distance(const struct compare_entry *e, int which, char *text) {
    (void)which;
    snprintf(text, COMPARE_CELL_BYTES, "%.1g", e->row->distance);
}

static const struct compare_column MEMORY[] = {
    {"param", "param", "predicted_param_bytes", cell_role, ROLE_PARAM},
    {"grad", "grad", "predicted_grad_bytes", cell_role, ROLE_GRAD},
    {"optim", "optim", "predicted_optim_bytes", cell_role, ROLE_OPTIM},
    {"act", "act", "predicted_act_bytes", cell_role, ROLE_ACT},
    {"comm", "comm", "predicted_comm_bytes", cell_role, ROLE_COMM},
    {"work", "work", "predicted_work_bytes", cell_role, ROLE_WORK},
    {"save", "save", "predicted_save_bytes", cell_rare_role, ROLE_SAVE},
    {"total", "total", "predicted_total_bytes", cell_total, 0},
    {"measured", "measured total", "measured_total_bytes", cell_measured, 0},
    {"on host", "on host", "predicted_host_bytes", cell_tier, TIER_HOST},
    {"on disk", "on disk", "predicted_disk_bytes", cell_tier, TIER_DISK},
    {"resident", "resident", "resident_bytes", cell_resident, 0},
    {"unaccounted", "unaccounted", "unaccounted_bytes", cell_unaccounted, 0},
};
static const struct compare_column SPEED[] = {
    {"ranks", "ranks x threads", "ranks x threads", cell_ranks, 0}, {"step ms", "step, ms", "step_ms", cell_step, 0},
    {"tok/s", "tokens/s", "tokens_per_s", cell_tokens, 0},
    {"sent dp", "sent dp, MiB", "comm_dp_bytes + comm_shard_bytes + comm_replicate_bytes", cell_sent, AXIS_DP},
    {"tp", "sent tp, MiB", "comm_tp_bytes", cell_sent, AXIS_TP},
    {"pp", "sent pp, MiB", "comm_pp_bytes", cell_sent, AXIS_PP},
    {"rest", "sent rest, MiB", "comm_tie_bytes + comm_mesh_bytes", cell_sent_rest, 0},
    {"wait dp", "waited dp, ms", "comm_dp_ms + comm_shard_ms + comm_replicate_ms", cell_waited, AXIS_DP},
    {"tp", "waited tp, ms", "comm_tp_ms", cell_waited, AXIS_TP},
    {"pp", "waited pp, ms", "comm_pp_ms", cell_waited, AXIS_PP},
    {"rest", "waited rest, ms", "comm_tie_ms + comm_mesh_ms", cell_waited_rest, 0},
    {"bubble %", "bubble, %", "bubble_share", cell_bubble, 0},
    {"flops +%", "more flops, %", "extra_flops", cell_extra_flops, 0},
    {"loss", "loss", "loss", cell_loss, 0}, {"distance", "distance of loss", "loss_distance", cell_distance, 0},
};
static const struct compare_column FORECAST[] = {
    {"step ms", "step, ms", "step_ms", cell_step, 0},
    {"predicted step", "predicted step, ms", "predicted_step_ms", cell_predicted, 0},
    {"rank", "rank by step", "rank", cell_rank, 0},
    {"predicted rank", "predicted rank", "predicted_rank", cell_rank, 1},
    {"work ms", "work of all ranks, ms", "work_ms", cell_work, 0},
    {"predicted work", "predicted work, ms", "predicted_work_ms", cell_predicted_work, 0},
    {"spread %", "spread of passes, %", "spread", cell_spread, 0},
};
#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

const struct compare_columns compare_memory_columns =
    {"Memory, MiB on the rank that has most: planned peak by role; measured in the arenas; resident in the process",
     MEMORY, COUNT(MEMORY)};
const struct compare_columns compare_speed_columns =
    {"Speed, per step: MiB sent by the rank that sends most; ms waited, mean of the ranks; bubble: share of the step "
     "spent waiting for pipeline neighbors",
     SPEED, COUNT(SPEED)};
const struct compare_columns compare_forecast_columns =
    {"Predicted on --cluster, against measured, per step: spread: how far passes lie apart; work: processor time of "
     "all ranks, without operations between them",
     FORECAST, COUNT(FORECAST)};

struct compare_entry *compare_entries(const struct compare_row *rows, int n_rows) {
    struct compare_entry *entries = calloc((size_t)n_rows, sizeof *entries);
    for (int i = 0; entries && i < n_rows; i++) {
        entries[i].row = &rows[i];
        if (rows[i].status == OK) entries[i].sum = compare_summarise(&rows[i]);
        entries[i].rank = 1 + compare_faster(rows, n_rows, &rows[i], false);
        entries[i].predicted_rank = 1 + compare_faster(rows, n_rows, &rows[i], true);
    }
    return entries;
}

void compare_cell(const struct compare_column *c, const struct compare_entry *e, char text[COMPARE_CELL_BYTES]) {
    text[0] = 0;
    if (e->row->status == OK) c->cell(e, c->which, text);
}

bool compare_column_used(const struct compare_column *c, const struct compare_entry *entries, int n) {
    char text[COMPARE_CELL_BYTES];
    for (int i = 0; i < n; i++) {
        compare_cell(c, &entries[i], text);
        if (text[0]) return true;
    }
    return false;
}

/* ---- laying out ---- */
static int max(int a, int b) { return a > b ? a : b; }

static int name_width(const struct compare_entry *entries, int n) {
    int width = (int)strlen("strategy");
    for (int i = 0; i < n; i++) width = max(width, (int)strlen(compare_row_name(entries[i].row)));
    return width < NAME_WIDTH ? width : NAME_WIDTH;
}

static void print_name(FILE *f, const char *name, int width) {
    if ((int)strlen(name) <= width) fprintf(f, "%-*s", width, name);
    else fprintf(f, "%.*s...", width - 3, name);                     /* whole in the files */
}

/* 0: no row has anything to say there. */
static int column_width(const struct compare_column *c, const struct compare_entry *entries, int n) {
    char text[COMPARE_CELL_BYTES];
    int width = 0;
    for (int i = 0; i < n; i++) {
        compare_cell(c, &entries[i], text);
        width = max(width, (int)strlen(text));
    }
    return width ? max(width, (int)strlen(c->title)) : 0;
}

/* Words of a sentence from column `at` on, in as many lines as it takes. */
static void print_sentence(FILE *f, const char *text, int at) {
    for (int used = at; *text;) {
        int n = (int)strcspn(text, " ");
        if (used > at && used + 1 + n > LINE_WIDTH) {
            fprintf(f, "\n%*s", at, "");
            used = at;
        }
        fprintf(f, "%s%.*s", used > at ? " " : "", n, text);
        used += n + (used > at);
        text += n + (text[n] == ' ');
    }
    fputc('\n', f);
}

static void print_reason(FILE *f, const struct compare_row *row, int at) {
    char text[COMPARE_REASON_BYTES + 64];
    snprintf(text, sizeof text, "%s: %s %s", compare_row_status(row), status_name(row->status), row->reason);
    print_sentence(f, text, at);
}

struct table { const struct compare_column *columns; int n_columns, name_width, width[MOST_COLUMNS]; };

static void print_head(FILE *f, struct table *t, const struct compare_entry *entries, int n) {
    t->name_width = name_width(entries, n);
    fprintf(f, "%-*s", t->name_width, "strategy");
    for (int c = 0; c < t->n_columns; c++) {
        t->width[c] = column_width(&t->columns[c], entries, n);
        if (t->width[c]) fprintf(f, "  %*s", t->width[c], t->columns[c].title);
    }
    fputc('\n', f);
}

static void print_cells(FILE *f, const struct table *t, const struct compare_entry *e) {
    char text[COMPARE_CELL_BYTES];
    for (int c = 0; c < t->n_columns; c++) {
        compare_cell(&t->columns[c], e, text);
        if (t->width[c]) fprintf(f, "  %*s", t->width[c], text);
    }
    fputc('\n', f);
}

/* Reasons are long; the first table has them. */
static void print_table(FILE *f, struct table t, const struct compare_entry *entries, int n, bool reasons) {
    print_head(f, &t, entries, n);
    for (int i = 0; i < n; i++) {
        const struct compare_row *row = entries[i].row;
        print_name(f, compare_row_name(row), t.name_width);
        if (row->status == OK) {
            print_cells(f, &t, &entries[i]);
            continue;
        }
        fputs("  ", f);
        if (reasons) print_reason(f, row, t.name_width + 2);
        else fprintf(f, "%s\n", compare_row_status(row));
    }
}

/* ---- what to read off ---- */
/* Where ranks share cores a winner would be one of the scheduler's. */
static void print_fastest(FILE *f, const struct compare_entry *fastest) {
    double cores = comm_local_cores();
    if (comm_local_size() > cores)
        fprintf(f,
                "Which is the fastest cannot be seen here: %d ranks share %.3g core%s. Memory and bytes do not depend "
                "on that.\n",
                comm_local_size(), cores, cores == 1 ? "" : "s");
    else
        fprintf(f, "Most tokens a second: %s (%.0f).\n", compare_row_name(fastest->row), fastest->row->tokens_per_s);
}

void compare_conclusion(FILE *f, const struct compare_entry *entries, int n) {
    const struct compare_entry *least = NULL, *fastest = NULL;
    char text[COMPARE_CELL_BYTES];
    for (int i = 0; i < n; i++) {
        const struct compare_entry *e = &entries[i];
        if (e->row->status != OK) continue;
        if (!least || e->sum.predicted_tier[TIER_DEVICE] < least->sum.predicted_tier[TIER_DEVICE]) least = e;
        if (!fastest || e->row->tokens_per_s > fastest->row->tokens_per_s) fastest = e;
    }
    if (!least) return;
    cell_mib((double)least->sum.predicted_tier[TIER_DEVICE], text);
    fprintf(f, "Least memory on the fullest rank: %s (%s MiB). ", compare_row_name(least->row), text);
    print_fastest(f, fastest);
}

static void print_columns(FILE *f, const struct compare_columns *c, const struct compare_entry *entries, int n,
                          bool reasons) {
    fprintf(f, "\n%s\n", c->caption);
    print_table(f, (struct table){.columns = c->column, .n_columns = c->n}, entries, n, reasons);
}

void compare_table_print(FILE *f, const struct compare_row *rows, int n_rows) {
    struct compare_entry *entries = compare_entries(rows, n_rows);
    if (!entries) return;                                            /* the files have it all */
    print_columns(f, &compare_memory_columns, entries, n_rows, true);
    print_columns(f, &compare_speed_columns, entries, n_rows, false);
    bool forecast = false;
    for (int i = 0; i < n_rows; i++) forecast |= rows[i].predicted_step_s > 0;
    if (forecast) print_columns(f, &compare_forecast_columns, entries, n_rows, false);
    fprintf(f, "\nunaccounted: code, libraries, MPI, the heap; rest: weights that two stages share, and what all "
               "ranks agree on; distance: of the last loss from the first row's, relative\n");
    bool coded = false, quantized = false, apart = false;
    for (int i = 0; i < n_rows; i++)
        coded |= rows[i].coded, quantized |= rows[i].quantized, apart |= rows[i].apart;
    static const char alike[] = "Such a row's reference is one process that rounds alike, not the serial run, so its "
                                "distance is no error of the layout\n";
    if (coded) fprintf(f, "grad-codec: gradients are rounded on their way. %s", alike);
    if (quantized) fprintf(f, "weight-codec: weights are rounded for every use. %s", alike);
    if (apart)
        fprintf(f, "local-steps: replicas train apart and average now and then. Such a row's reference is one process "
                   "that trains them one after the other, not the serial run, so its distance is no error of the "
                   "layout\n");
    compare_conclusion(f, entries, n_rows);
    compare_forecast_print(f, rows, n_rows);
    fflush(f);
    free(entries);
}
