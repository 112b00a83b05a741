#include "driver/compare/compare_page.h"

#include "driver/compare/compare_report.h"
#include "driver/compare/compare_table.h"
#include "driver/recipe.h"
#include "driver/report/report.h"
#include "lib/base/option.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- where and when ---- */

/* X of "model name : X" in /proc/cpuinfo; "" if there is no such line. */
static void processor_name(char *name, size_t bytes) {
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");
    *name = 0;
    while (f && !*name && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10)) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, bytes, "%.120s", colon + 1 + strspn(colon + 1, " "));
    }
    if (f) fclose(f);
}

void compare_about_here(struct compare_about *a) {
    char processor[128];
    time_t now = time(NULL);
    struct tm utc;
    strftime(a->date, sizeof a->date, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    processor_name(processor, sizeof processor);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(a->machine, sizeof a->machine, "%s%s%ld core%s; %d rank%s launched, %d of them here; %.60s", processor,
             *processor ? ", " : "", cores, cores == 1 ? "" : "s", comm_world_size(), comm_world_size() == 1 ? "" : "s",
             comm_local_size(), comm_library());
}

/* ---- the request ---- */
static void add_option(void *self, const struct option *o, const char *value, enum option_source source) {
    static const char *const sources[] = {"default", "data", "preset", "file", "command line"};
    if (source == FROM_DEFAULT || !strcmp(o->name, "strategies")) return;
    json_array_append_new(self, json_pack("{s:s, s:o, s:s, s:s}", "name", o->name, "value", report_text(value), "from",
                                          sources[source], "meaning", o->meaning));
}

static json_t *about_json(const struct compare_about *a) {
    json_t *options = json_array();
    if (a->options) options_each(a->options, add_option, options);
    return json_pack("{s:i, s:s, s:o, s:o}", "strategies", a->n_strategies, "date", a->date, "machine",
                     report_text(a->machine), "options", options);
}

/* ---- tables: the same cells as in the terminal ---- */
static json_t *line_json(const struct compare_columns *c, const struct compare_entry *entries, int n,
                         const struct compare_entry *e) {
    char text[COMPARE_CELL_BYTES];
    json_t *line = json_pack("[o]", report_text(compare_row_name(e->row)));
    for (int i = 0; i < c->n && e->row->status == OK; i++) {
        if (!compare_column_width(&c->column[i], entries, n)) continue;
        compare_cell(&c->column[i], e, text);
        json_array_append_new(line, json_string(text));
    }
    if (e->row->status == OK) return line;
    char reason[COMPARE_REASON_BYTES + 64];
    compare_reason(e->row, reason);
    json_array_append_new(line, json_pack("{s:o}", "reason", report_text(reason)));
    return line;
}

static json_t *table_json(const struct compare_columns *c, const struct compare_entry *entries, int n) {
    json_t *heads = json_pack("[s]", "strategy"), *rows = json_array();
    for (int i = 0; i < c->n; i++)
        if (compare_column_width(&c->column[i], entries, n))
            json_array_append_new(heads, json_pack("{s:s, s:s}", "text", c->column[i].full, "title", c->column[i].key));
    for (int i = 0; i < n; i++) json_array_append_new(rows, line_json(c, entries, n, &entries[i]));
    return json_pack("{s:s, s:s, s:o, s:o}", "id", c->id, "caption", c->caption, "heads", heads, "rows", rows);
}

struct results { const struct compare_entry *entries; int n; };
static void print_conclusion(FILE *f, const void *self) {
    const struct results *r = self;
    compare_conclusion(f, r->entries, r->n);
}

static enum status add_results(json_t *page, const struct compare_row *rows, int n) {
    struct compare_entry *entries = compare_entries(rows, n);
    if (!entries) return FAIL(E_MEMORY, "no memory for a table of %d strategies", n);
    const struct results results = {entries, n};
    json_t *tables = json_array();
    for (int i = 0; i < compare_tables_used(rows, n); i++)
        json_array_append_new(tables, table_json(&compare_tables[i], entries, n));
    json_object_set_new(page, "conclusion", report_words(print_conclusion, &results));
    json_object_set_new(page, "tables", tables);
    compare_entries_free(entries, n);
    return OK;
}

/* ---- the page ---- */
enum status compare_page_json(const struct compare_about *about, const struct compare_row *rows, int n_rows,
                              json_t **out) {
    json_t *timelines = json_array(), *pipelines = json_array();
    *out = json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", "compare", "about", about_json(about), "compare",
                     compare_json(rows, n_rows), "timelines", timelines, "pipelines", pipelines);
    if (!*out) return FAIL(E_MEMORY, "no memory for the report");
    for (int i = 0; i < n_rows; i++)
        if (rows[i].timeline) json_array_append(timelines, rows[i].timeline);
    if (recipe_draws_pipeline()) TRY(recipe_draws_pipeline()->of_rows(rows, n_rows, pipelines));
    return add_results(*out, rows, n_rows);
}

enum status compare_page_write(const char *dir, const struct compare_about *about, const struct compare_row *rows,
                               int n_rows) {
    json_t *page = NULL;
    enum status status = compare_page_json(about, rows, n_rows, &page);
    if (status == OK) return report_write(dir, "report", page, JSON_COMPACT);
    json_decref(page);
    return status;
}
