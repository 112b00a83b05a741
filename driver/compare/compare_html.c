#include "driver/compare/compare_html.h"

#include "driver/compare/compare_pictures.h"
#include "driver/compare/compare_report.h"
#include "driver/compare/compare_table.h"
#include "driver/chart/markup.h"
#include "driver/chart/page.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct page { const struct compare_about *about; const struct compare_row *rows; int n_rows; };

/* ---- where and when ---- */

/* "model name : X" in /proc/cpuinfo; "" where there is none. */
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

/* ---- head ---- */
static void write_head(FILE *f, const struct page *p) {
    char title[64];
    int n = p->about->n_strategies;
    snprintf(title, sizeof title, "A comparison of %d strateg%s", n, n == 1 ? "y" : "ies");
    page_open(f, title);
    fprintf(f, "<p class=\"small\">Begun %s. ", p->about->date);
    markup_text(f, p->about->machine);
    fprintf(f, ".</p>\n");
    if (p->n_rows < p->about->n_strategies)
        fprintf(f, "<p><strong>Not complete:</strong> %d of them are done.</p>\n", p->n_rows);
}

/* ---- what was run ---- */
static void write_option(void *self, const struct option *o, const char *value, enum option_source source) {
    static const char *const sources[] = {"default", "data", "preset", "file", "command line"};
    FILE *f = self;
    if (source == FROM_DEFAULT || !strcmp(o->name, "strategies")) return;
    fprintf(f, "<tr><th scope=\"row\">");
    markup_text(f, o->name);
    fprintf(f, "</th><td class=\"text\">");
    markup_text(f, value);
    fprintf(f, "</td><td class=\"text\">%s</td><td class=\"text\">", sources[source]);
    markup_text(f, o->meaning);
    fprintf(f, "</td></tr>\n");
}

static void write_options(FILE *f, const struct page *p) {
    fprintf(f, "<h2 id=\"options\">What was run</h2>\n<p>Every strategy trained the same steps on the same samples "
               "from the same seed, one after the other in one launch. "
               "What they have in common, beside the defaults:</p>\n<div class=\"wide\"><table>\n<thead><tr><th "
               "scope=\"col\">option</th><th scope=\"col\" class=\"text\">value</th><th scope=\"col\">from</th><th "
               "scope=\"col\">meaning</th></tr></thead>\n<tbody>\n");
    if (p->about->options) options_each(p->about->options, write_option, f);
    fprintf(f, "</tbody>\n</table></div>\n");
}

/* ---- tables ---- */
static void write_columns(FILE *f, const struct compare_columns *c, const struct compare_entry *entries, int n,
                          int *n_used) {
    fprintf(f, "<thead><tr><th scope=\"col\">strategy</th>");
    *n_used = 0;
    for (int i = 0; i < c->n; i++) {
        if (!compare_column_used(&c->column[i], entries, n)) continue;
        fprintf(f, "<th scope=\"col\" title=\"%s\">%s</th>", c->column[i].key, c->column[i].full);
        ++*n_used;
    }
    if (*n_used == 0) fprintf(f, "<th scope=\"col\" class=\"text\">why not</th>");
    fprintf(f, "</tr></thead>\n");
}

static void write_cells(FILE *f, const struct compare_columns *c, const struct compare_entry *entries, int n,
                        const struct compare_entry *e) {
    char text[COMPARE_CELL_BYTES];
    for (int i = 0; i < c->n; i++) {
        if (!compare_column_used(&c->column[i], entries, n)) continue;
        compare_cell(&c->column[i], e, text);
        fprintf(f, "<td>");
        markup_text(f, text);
        fprintf(f, "</td>");
    }
}

static void write_reason(FILE *f, const struct compare_row *row, int n_columns) {
    fprintf(f, "<td class=\"reason\" colspan=\"%d\">%s: %s ", n_columns ? n_columns : 1, compare_row_status(row),
            status_name(row->status));
    markup_text(f, row->reason);
    fprintf(f, "</td>");
}

static void write_table(FILE *f, const char *id, const struct compare_columns *c, const struct compare_entry *entries,
                        int n) {
    int n_used;
    fprintf(f, "<div class=\"wide\"><table id=\"%s\">\n<caption>", id);
    markup_text(f, c->caption);
    fprintf(f, "</caption>\n");
    write_columns(f, c, entries, n, &n_used);
    fprintf(f, "<tbody>\n");
    for (int i = 0; i < n; i++) {
        fprintf(f, "<tr><th scope=\"row\">");
        markup_text(f, compare_row_name(entries[i].row));
        fprintf(f, "</th>");
        if (entries[i].row->status == OK) write_cells(f, c, entries, n, &entries[i]);
        else write_reason(f, entries[i].row, n_used);
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</tbody>\n</table></div>\n");
}

static enum status write_conclusion(FILE *f, const struct compare_entry *entries, int n) {
    char *text = NULL;
    size_t bytes;
    FILE *words = open_memstream(&text, &bytes);
    if (!words) return FAIL(E_MEMORY, "no memory for a sentence");
    compare_conclusion(words, entries, n);
    if (fclose(words)) return FAIL(E_MEMORY, "no memory for a sentence");
    fprintf(f, "<p>");
    markup_text(f, text);
    fprintf(f, "</p>\n");
    free(text);
    return OK;
}

static enum status write_tables(FILE *f, const struct page *p) {
    struct compare_entry *entries = compare_entries(p->rows, p->n_rows);
    if (!entries) return FAIL(E_MEMORY, "no memory for a table of %d strategies", p->n_rows);
    fprintf(f, "<h2 id=\"results\">Results</h2>\n");
    enum status status = write_conclusion(f, entries, p->n_rows);
    write_table(f, "memory-table", &compare_memory_columns, entries, p->n_rows);
    write_table(f, "speed-table", &compare_speed_columns, entries, p->n_rows);
    bool forecast = false;
    for (int i = 0; i < p->n_rows; i++) forecast |= p->rows[i].predicted_step_s > 0;
    if (forecast) write_table(f, "forecast-table", &compare_forecast_columns, entries, p->n_rows);
    fprintf(f, "<p class=\"small\">Bytes are those of the rank that has most, for each column by itself, so that roles "
               "need not sum to the total. A column's key in "
               "compare.json and compare.csv shows while the pointer is over its head; these files have all digits, "
               "and every rank.</p>\n");
    free(entries);
    return status;
}

/* ---- pictures ---- */
static enum status write_picture(FILE *f, const struct page *p, const struct compare_picture *picture) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *svg = open_memstream(&text, &bytes);
    if (!svg) return FAIL(E_MEMORY, "no memory for a picture");
    enum status status = picture->draw(p->rows, p->n_rows, svg);
    if (fclose(svg)) status = FAIL(E_MEMORY, "no memory for a picture");
    if (status == OK && bytes)
        fprintf(f, "<h2 id=\"%s\">%s</h2>\n<p class=\"small\">%s</p>\n<figure>\n%s</figure>\n", picture->name,
                picture->heading, picture->meaning, text);
    free(text);
    return status;
}

/* The text is made in memory: the writer of files knows only whether writing failed. */
static enum status write_page(FILE *f, const struct page *p) {
    write_head(f, p);
    TRY(write_tables(f, p));
    for (int i = 0; i < compare_n_pictures; i++) TRY(write_picture(f, p, &compare_pictures[i]));
    write_options(f, p);
    page_close(f);
    return OK;
}

static int put(FILE *f, const void *text) { return fputs(text, f) < 0; }

enum status compare_html_write(const char *dir, const struct compare_about *about, const struct compare_row *rows,
                               int n_rows) {
    struct page page = {about, rows, n_rows};
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return FAIL(E_MEMORY, "no memory for the report");
    enum status status = write_page(f, &page);
    if (fclose(f)) status = FAIL(E_MEMORY, "no memory for the report");
    if (status == OK) status = compare_report_replace(dir, "report.html", put, text);
    free(text);
    return status;
}
