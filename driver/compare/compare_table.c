/* A table is a list of columns; a column has a title and a number of compare.json. A column is as wide as its widest
 * cell. A column without any text is left out. */
#include "driver/compare/compare_table.h"

#include "driver/compare/compare_forecast.h"
#include "driver/compare/compare_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 16, NAME_WIDTH = 32, LINE_WIDTH = 140 };

/* ---- cells ---- */
void compare_mib(double bytes, char *text, size_t text_bytes) {
    double mib = bytes / (1 << 20);
    snprintf(text, text_bytes, "%.*f", fabs(mib) < 100 ? 2 : fabs(mib) < 1000 ? 1 : 0, mib);
}

/* The sum over the axes that have no column. unit: "bytes" or "ms". */
static double rest_of(json_t *row, const char *unit) {
    const unsigned shown = 1 << AXIS_TP | 1 << AXIS_DP | 1 << AXIS_SHARD | 1 << AXIS_REPLICATE | 1 << AXIS_PP;
    double rest = 0;
    for (enum mesh_axis a = AXIS_SELF + 1; a < N_MESH_AXES; a++) {
        char key[64];
        snprintf(key, sizeof key, "comm_%s_%s", mesh_axis_name(a), unit);
        if (!(shown >> a & 1)) rest += json_number_value(json_object_get(row, key));
    }
    return rest;
}

/* The sum of the keys in "a + b"; NAN if a key has no number. */
static double value_of(json_t *row, const char *key) {
    double sum = 0;
    for (const char *at = key; *at; at += strspn(at, " +")) {
        char one[64];
        const int n = (int)strcspn(at, " ");
        snprintf(one, sizeof one, "%.*s", n, at);
        const json_t *x = json_object_get(row, one);
        sum += json_is_number(x) ? json_number_value(x) : NAN;
        at += n;
    }
    return sum;
}

#define OF_DP(unit) "comm_dp_" unit " + comm_shard_" unit " + comm_replicate_" unit
#define REST(unit) "comm_*_" unit " of the other axes"
static const struct compare_column MEMORY[] = {
    {"param", "param", "predicted_param_bytes", CELL_MIB},
    {"grad", "grad", "predicted_grad_bytes", CELL_MIB},
    {"optim", "optim", "predicted_optim_bytes", CELL_MIB},
    {"act", "act", "predicted_act_bytes", CELL_MIB},
    {"comm", "comm", "predicted_comm_bytes", CELL_MIB},
    {"work", "work", "predicted_work_bytes", CELL_MIB},
    {"save", "save", "predicted_save_bytes", CELL_RARE_MIB},
    {"total", "total", "predicted_total_bytes", CELL_MIB},
    {"measured", "measured total", "measured_total_bytes", CELL_MIB},
    {"on host", "on host", "predicted_host_bytes", CELL_RARE_MIB},
    {"on disk", "on disk", "predicted_disk_bytes", CELL_RARE_MIB},
    {"resident", "resident", "resident_bytes", CELL_MIB},
    {"unaccounted", "unaccounted", "unaccounted_bytes", CELL_MIB},
};
static const struct compare_column SPEED[] = {
    {"ranks", "ranks x threads", "ranks x threads", CELL_RANKS},
    {"step ms", "step, ms", "step_ms", CELL_TENTHS},
    {"tok/s", "tokens/s", "tokens_per_s", CELL_WHOLE},
    {"scale %", "scale factor T_n/(n T_1), %", "scale_factor", CELL_PERCENT},
    {"sent dp", "sent dp, MiB", OF_DP("bytes"), CELL_MIB},
    {"tp", "sent tp, MiB", "comm_tp_bytes", CELL_MIB},
    {"pp", "sent pp, MiB", "comm_pp_bytes", CELL_MIB},
    {"rest", "sent rest, MiB", REST("bytes"), CELL_REST_MIB},
    {"wait dp", "waited dp, ms", OF_DP("ms"), CELL_TENTHS},
    {"tp", "waited tp, ms", "comm_tp_ms", CELL_TENTHS},
    {"pp", "waited pp, ms", "comm_pp_ms", CELL_TENTHS},
    {"rest", "waited rest, ms", REST("ms"), CELL_REST_MS},
    {"bubble %", "bubble, %", "bubble_share", CELL_PERCENT},
    {"flops +%", "more flops, %", "extra_flops", CELL_PERCENT},
    {"loss", "loss", "loss", CELL_LOSS},
    {"distance", "distance of loss", "loss_distance", CELL_DISTANCE},
};
static const struct compare_column FORECAST[] = {
    {"step ms", "step, ms", "step_ms", CELL_TENTHS},
    {"predicted step", "predicted step, ms", "predicted_step_ms", CELL_TENTHS},
    {"rank", "rank by step", "rank", CELL_WHOLE},
    {"predicted rank", "predicted rank", "predicted_rank", CELL_WHOLE},
    {"work ms", "work of all ranks, ms", "work_ms", CELL_TENTHS},
    {"predicted work", "predicted work, ms", "predicted_work_ms", CELL_TENTHS},
    {"spread %", "spread of passes, %", "spread", CELL_PERCENT},
};
#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

const struct compare_columns compare_tables[COMPARE_TABLES] = {
    {"memory-table",
     "Memory, MiB on the rank that has most: planned peak by role; measured in the arenas; resident in the process",
     MEMORY, COUNT(MEMORY)},
    {"speed-table",
     "Speed, per step: MiB sent by the rank that sends most; ms waited, mean of the ranks; bubble: share of the step "
     "spent waiting for pipeline neighbors; scale: T_n / (n T_1), of tokens/s and ranks",
     SPEED, COUNT(SPEED)},
    {"forecast-table",
     "Predicted on --cluster, against measured, per step: spread: how far passes lie apart; work: processor time of "
     "all ranks, without operations between them",
     FORECAST, COUNT(FORECAST)},
};

struct compare_entry *compare_entries(const struct compare_row *rows, int n_rows) {
    struct compare_entry *entries = calloc((size_t)n_rows, sizeof *entries);
    for (int i = 0; entries && i < n_rows; i++) {
        const struct compare_row *row = &rows[i];
        json_t *o = compare_row_json(row);
        if (row->status == OK && row->predicted_step_s > 0) {
            json_object_set_new(o, "rank", json_integer(1 + compare_faster(rows, n_rows, row, false)));
            json_object_set_new(o, "predicted_rank", json_integer(1 + compare_faster(rows, n_rows, row, true)));
        }
        if (!(row->work_s > 0)) json_object_del(o, "predicted_work_ms");             /* there is no measured work */
        entries[i] = (struct compare_entry){row, o};
    }
    return entries;
}

void compare_entries_free(struct compare_entry *entries, int n) {
    for (int i = 0; entries && i < n; i++) json_decref(entries[i].json);
    free(entries);
}

void compare_cell(const struct compare_column *c, const struct compare_entry *e, char text[COMPARE_CELL_BYTES]) {
    const double x = c->kind >= CELL_RANKS ? 0 : value_of(e->json, c->key);
    text[0] = 0;
    if (e->row->status != OK || isnan(x) || (c->kind == CELL_RARE_MIB && x == 0)) return;
    switch (c->kind) {
    case CELL_MIB: case CELL_RARE_MIB: compare_mib(x, text, COMPARE_CELL_BYTES); return;
    case CELL_WHOLE: snprintf(text, COMPARE_CELL_BYTES, "%.0f", x); return;
    case CELL_TENTHS: snprintf(text, COMPARE_CELL_BYTES, "%.1f", x); return;
    case CELL_PERCENT: snprintf(text, COMPARE_CELL_BYTES, "%.1f", 100 * x); return;
    case CELL_LOSS: snprintf(text, COMPARE_CELL_BYTES, "%.6f", x); return;
    case CELL_DISTANCE: snprintf(text, COMPARE_CELL_BYTES, "%.1g", x); return;
    case CELL_RANKS: snprintf(text, COMPARE_CELL_BYTES, "%d x %d", e->row->n_ranks, e->row->n_threads); return;
    case CELL_REST_MIB: compare_mib(rest_of(e->json, "bytes"), text, COMPARE_CELL_BYTES); return;
    case CELL_REST_MS: snprintf(text, COMPARE_CELL_BYTES, "%.1f", rest_of(e->json, "ms"));
    }
}

int compare_tables_used(const struct compare_row *rows, int n_rows) {
    int i = 0;
    while (i < n_rows && !(rows[i].predicted_step_s > 0)) i++;
    return i < n_rows ? COMPARE_TABLES : COMPARE_TABLES - 1;
}

void compare_reason(const struct compare_row *row, char text[COMPARE_REASON_BYTES + 64]) {
    snprintf(text, COMPARE_REASON_BYTES + 64, "%s: %s %s", compare_row_status(row), status_name(row->status),
             row->reason);
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
    else fprintf(f, "%.*s...", width - 3, name);                     /* the files have the whole name */
}

int compare_column_width(const struct compare_column *c, const struct compare_entry *entries, int n) {
    char text[COMPARE_CELL_BYTES];
    int width = 0;
    for (int i = 0; i < n; i++) {
        compare_cell(c, &entries[i], text);
        width = max(width, (int)strlen(text));
    }
    return width ? max(width, (int)strlen(c->title)) : 0;
}

/* Print a sentence from column `at` on, with line breaks between words. */
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

static void print_cells(FILE *f, const struct compare_columns *t, const int *width, const struct compare_entry *e) {
    char text[COMPARE_CELL_BYTES];
    for (int c = 0; c < t->n; c++) {
        compare_cell(&t->column[c], e, text);
        if (width[c]) fprintf(f, "  %*s", width[c], text);
    }
    fputc('\n', f);
}

/* Only the first table prints reasons, because they are long. */
static void print_table(FILE *f, const struct compare_columns *t, const struct compare_entry *entries, int n) {
    const int name = name_width(entries, n);
    int width[MOST_COLUMNS];
    char reason[COMPARE_REASON_BYTES + 64];
    fprintf(f, "\n%s\n%-*s", t->caption, name, "strategy");
    for (int c = 0; c < t->n; c++) {
        width[c] = compare_column_width(&t->column[c], entries, n);
        if (width[c]) fprintf(f, "  %*s", width[c], t->column[c].title);
    }
    fputc('\n', f);
    for (int i = 0; i < n; i++) {
        const struct compare_row *row = entries[i].row;
        print_name(f, compare_row_name(row), name);
        if (row->status == OK) {
            print_cells(f, t, width, &entries[i]);
            continue;
        }
        fputs("  ", f);
        compare_reason(row, reason);
        print_sentence(f, t == compare_tables ? reason : compare_row_status(row), name + 2);
    }
}

/* ---- conclusions ---- */
/* If ranks share cores, name no winner: times depend on the operating system's scheduler. */
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
    const char total[] = "predicted_total_bytes";
    char text[COMPARE_CELL_BYTES];
    for (int i = 0; i < n; i++) {
        const struct compare_entry *e = &entries[i];
        if (e->row->status != OK) continue;
        if (!least || value_of(e->json, total) < value_of(least->json, total)) least = e;
        if (!fastest || e->row->tokens_per_s > fastest->row->tokens_per_s) fastest = e;
    }
    if (!least) return;
    compare_mib(value_of(least->json, total), text, sizeof text);
    fprintf(f, "Least memory on the fullest rank: %s (%s MiB). ", compare_row_name(least->row), text);
    print_fastest(f, fastest);
}

void compare_table_print(FILE *f, const struct compare_row *rows, int n_rows) {
    struct compare_entry *entries = compare_entries(rows, n_rows);
    if (!entries) return;                                            /* the files have all numbers */
    for (int i = 0; i < compare_tables_used(rows, n_rows); i++) print_table(f, &compare_tables[i], entries, n_rows);
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
    compare_entries_free(entries, n_rows);
}
