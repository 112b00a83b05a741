#include "driver/compare/compare_report.h"

#include "driver/compare/compare_forecast.h"
#include "driver/report/report.h"
#include <stdio.h>
#include <string.h>

/* ---- one object per row; jansson keeps keys in the order of insertion, which is the CSV's order, too ---- */
static void set_text(json_t *o, const char *key, const char *text) {
    json_object_set_new(o, key, report_text(text));
}

static void set_real(json_t *o, bool known, double x, const char *prefix, const char *name, const char *suffix) {
    char key[64];
    snprintf(key, sizeof key, "%s%s%s", prefix, name, suffix);
    json_object_set_new(o, key, known ? report_number(x) : json_null());
}

static void set_int(json_t *o, bool known, int64_t x, const char *prefix, const char *name, const char *suffix) {
    char key[64];
    snprintf(key, sizeof key, "%s%s%s", prefix, name, suffix);
    json_object_set_new(o, key, known ? json_integer(x) : json_null());
}

/* predicted_param_bytes ... predicted_total_bytes predicted_host_bytes predicted_disk_bytes */
static void set_memory(json_t *o, bool known, const char *which, const int64_t roles[N_ROLES],
                       const int64_t totals[N_TIERS]) {
    static const char *const names[N_TIERS] = {"total", "host", "disk"};
    for (enum role role = 0; role < N_ROLES; role++) set_int(o, known, roles[role], which, role_name(role), "_bytes");
    for (enum tier tier = 0; tier < N_TIERS; tier++) set_int(o, known, totals[tier], which, names[tier], "_bytes");
}

static void set_traffic(json_t *o, bool known, const double sent[N_MESH_AXES], const double waited_s[N_MESH_AXES]) {
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < N_MESH_AXES; axis++) {
        set_real(o, known, sent[axis], "comm_", mesh_axis_name(axis), "_bytes");
        set_real(o, known, 1e3 * waited_s[axis], "comm_", mesh_axis_name(axis), "_ms");
    }
}

static void set_layout(json_t *o, const struct compare_row *row) {
    bool ran = row->status == OK;
    char error[COMPARE_REASON_BYTES + 64];
    set_text(o, "strategy", row->strategy);
    set_text(o, "status", compare_row_status(row));
    snprintf(error, sizeof error, "%s %s", status_name(row->status), row->reason);
    if (ran) json_object_set_new(o, "error", json_null());
    else set_text(o, "error", error);
    for (int d = 0; d < N_DIMS; d++) set_int(o, ran, row->layout.n.at[d], "", mesh_dim_name(d), "");
    set_int(o, ran, row->n_ranks, "", "ranks", "");
    set_int(o, ran, row->n_threads, "", "threads", "");
}

static void set_speed(json_t *o, const struct compare_row *row) {
    bool ran = row->status == OK;
    set_int(o, ran, row->n_steps, "", "steps", "");
    set_int(o, ran, row->n_timed, "", "timed_steps", "");
    set_real(o, ran, 1e3 * row->step_s, "", "step_ms", "");
    set_real(o, ran && row->n_passes > 1, compare_row_spread(row), "", "spread", "");
    set_real(o, ran && row->predicted_step_s > 0, 1e3 * row->predicted_step_s, "", "predicted_step_ms", "");
    set_real(o, ran && row->work_s > 0, 1e3 * row->work_s, "", "work_ms", "");
    set_real(o, ran && row->predicted_work_s > 0, 1e3 * row->predicted_work_s, "", "predicted_work_ms", "");
    set_real(o, ran, row->tokens_per_s, "", "tokens_per_s", "");
    set_real(o, ran && row->scale_factor > 0, row->scale_factor, "", "scale_factor", "");
    set_real(o, ran, row->loss, "", "loss", "");
    set_real(o, ran, row->distance, "", "loss_distance", "");
}

json_t *compare_row_json(const struct compare_row *row) {
    bool ran = row->status == OK;
    struct compare_summary s = ran ? compare_summarise(row) : (struct compare_summary){0};
    json_t *o = json_object();
    set_layout(o, row);
    set_speed(o, row);
    set_memory(o, ran, "predicted_", s.predicted, s.predicted_tier);
    set_memory(o, ran, "measured_", s.measured, s.measured_tier);
    set_int(o, ran, s.resident, "", "resident", "_bytes");
    set_int(o, ran, s.unaccounted, "", "unaccounted", "_bytes");
    set_traffic(o, ran, s.sent_bytes, s.waited_s);
    set_real(o, ran, 1e3 * s.bubble_s, "", "bubble_ms", "");
    set_real(o, ran, s.bubble_share, "", "bubble_share", "");
    set_real(o, ran, s.extra_flops, "", "extra_flops", "");
    return o;
}

/* {"optim": bytes, ...}: the roles that have bytes in a tier. */
static json_t *tier_json(const int64_t roles[N_ROLES]) {
    json_t *o = json_object();
    for (enum role role = 0; role < N_ROLES; role++)
        if (roles[role]) json_object_set_new(o, role_name(role), json_integer(roles[role]));
    return o;
}

static json_t *rank_json(const struct compare_rank *rank, int number) {
    json_t *o = json_object();
    set_int(o, true, number, "", "rank", "");
    for (int d = 0; d < N_DIMS; d++) set_int(o, true, rank->place.rank.at[d], "", mesh_dim_name(d), "_rank");
    int64_t predicted[N_TIERS], measured[N_TIERS];
    for (enum tier tier = 0; tier < N_TIERS; tier++) {
        predicted[tier] = roles_total(rank->predicted[tier]);
        measured[tier] = roles_total(rank->measured[tier]);
    }
    set_memory(o, true, "predicted_", rank->predicted[TIER_DEVICE], predicted);
    set_memory(o, true, "measured_", rank->measured[TIER_DEVICE], measured);
    json_object_set_new(o, "predicted_host_roles", tier_json(rank->predicted[TIER_HOST]));
    json_object_set_new(o, "measured_host_roles", tier_json(rank->measured[TIER_HOST]));
    json_object_set_new(o, "predicted_disk_roles", tier_json(rank->predicted[TIER_DISK]));
    json_object_set_new(o, "measured_disk_roles", tier_json(rank->measured[TIER_DISK]));
    set_int(o, true, rank->resident_bytes, "", "resident", "_bytes");
    set_int(o, true, rank->resident_bytes - compare_rank_predicted(rank), "", "unaccounted", "_bytes");
    set_traffic(o, true, rank->sent_bytes, rank->waited_s);
    set_real(o, true, 1e3 * rank->bubble_s, "", "bubble_ms", "");
    set_real(o, true, 1e3 * rank->step_s, "", "step_ms", "");
    set_real(o, true, rank->flops, "", "flops", "");
    set_real(o, true, rank->replay_flops, "", "replay_flops", "");
    return o;
}

/* Add "forecast" if a row has a prediction. */
static void set_forecast(json_t *root, const struct compare_row *rows, int n_rows) {
    struct compare_forecast f = compare_forecast_of(rows, n_rows);
    if (f.n == 0) return;
    json_t *o = json_object();
    set_int(o, true, f.n, "", "strategies", "");
    set_real(o, f.noise > 0, f.noise, "", "noise", "");
    set_int(o, f.noise > 0, f.pairs, "", "pairs", "");
    set_int(o, f.noise > 0, f.in_order, "", "pairs_in_order", "");
    set_real(o, true, f.regret, "", "regret", "");
    set_real(o, true, f.step_error, "", "median_step_error", "");
    set_real(o, true, f.work_error, "", "median_work_error", "");
    json_object_set_new(root, "forecast", o);
}

json_t *compare_json(const struct compare_row *rows, int n_rows) {
    json_t *all = json_array();
    for (int i = 0; i < n_rows; i++) {
        json_t *row = compare_row_json(&rows[i]), *ranks = json_array();
        for (int r = 0; rows[i].status == OK && r < rows[i].n_ranks; r++)
            json_array_append_new(ranks, rank_json(&rows[i].ranks[r], r));
        json_object_set_new(row, "per_rank", ranks);
        json_array_append_new(all, row);
    }
    json_t *root = json_pack("{s:i, s:o}", "world", comm_world_size(), "strategies", all);
    if (root) set_forecast(root, rows, n_rows);
    return root;
}

struct report { const struct compare_row *rows; int n_rows; };

static int write_json(FILE *f, const void *self) {
    const struct report *report = self;
    json_t *root = compare_json(report->rows, report->n_rows);
    int failed = !root || json_dumpf(root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) || fputc('\n', f) == EOF;
    json_decref(root);
    return failed;
}

/* ---- CSV ---- */
void csv_write_cell(FILE *f, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"') fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void write_value(FILE *f, const json_t *value) {
    if (json_is_string(value)) csv_write_cell(f, json_string_value(value));
    else if (json_is_integer(value)) fprintf(f, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value)) fprintf(f, "%.17g", json_real_value(value));
}

/* Write the keys or the values of a row. One loop writes both, so that their numbers are equal. */
static void write_line(FILE *f, json_t *row, bool keys) {
    const char *key, *comma = "";
    json_t *value;
    json_object_foreach(row, key, value) {
        fputs(comma, f);
        if (keys) fputs(key, f);
        else write_value(f, value);
        comma = ",";
    }
    fputc('\n', f);
}

static int write_csv(FILE *f, const void *self) {
    const struct report *report = self;
    for (int i = 0; i < report->n_rows; i++) {
        json_t *row = compare_row_json(&report->rows[i]);
        if (i == 0) write_line(f, row, true);
        write_line(f, row, false);
        json_decref(row);
    }
    return ferror(f);
}

/* ---- files ---- */
enum status compare_report_write(const char *dir, const struct compare_row *rows, int n_rows) {
    struct report report = {rows, n_rows};
    TRY(report_replace(dir, "compare.csv", write_csv, &report));
    return report_replace(dir, "compare.json", write_json, &report);
}
