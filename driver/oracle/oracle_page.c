#include "driver/oracle/oracle_page.h"

#include "driver/chart/chart.h"
#include "driver/chart/markup.h"
#include "driver/chart/page.h"
#include "lib/base/grow.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int oracle_layer_of(const char *name) {
    int layer;
    const char *at = strstr(name, ".h.");
    if (!at) at = strstr(name, ".layers.");
    return at && sscanf(strchr(at + 1, '.') + 1, "%d", &layer) == 1 ? layer : -1;
}

/* ---- the map ---- */
enum { N_PHASES_SHOWN = 4, MOST_STEPS = 5 };
static const char *const PHASES[N_PHASES_SHOWN] = {"forward", "backward", "norm", "update"};
enum heat { RIGHT, A_LITTLE, FAR, VERY_FAR, RANKS_APART, N_HEATS };
static const struct chart_series HEATS[N_HEATS] = {
    {"right: 0 or less", CHART_GREEN}, {"to 1", CHART_PALE}, {"to 3", CHART_ORANGE}, {"further", CHART_VERMILION},
    {"ranks differ, or have not all of it", CHART_PURPLE}};

static int phase_of(const char *phase) {
    for (int i = 0; i < N_PHASES_SHOWN; i++)
        if (!strcmp(phase, PHASES[i])) return i;
    return 0;                                                        /* the loss ends forward */
}

static enum heat heat_of(const struct checked *c) {
    if (c->verdict == TENSOR_RIGHT) return RIGHT;
    if (c->verdict != TENSOR_WRONG) return RANKS_APART;
    double times = c->error / (CHECK_FACTOR * c->scale);
    return times <= 10 ? A_LITTLE : times <= 1000 ? FAR : VERY_FAR;
}

/* A cell tells its worst tensor: the power of ten of how many times too far, and its name. */
static void heat_up(struct chart_cell *cell, const struct checked *c, bool first) {
    double power = log10(c->error / (CHECK_FACTOR * c->scale));
    int heat = (int)heat_of(c);
    bool worse = heat > cell->series || (heat == cell->series && power > atof(cell->first));
    if (cell->second[0] || !(worse || first)) return;
    cell->series = heat;
    if (isfinite(power)) snprintf(cell->first, sizeof cell->first, "%.1f", power);
    if (first) snprintf(cell->second, sizeof cell->second, "first");
    snprintf(cell->hint, sizeof cell->hint, "%s", c->name);
}

struct map { int n_rows, n_steps; char (*row)[32]; const char **row_name, **column_name; char (*column)[32]; };

static int rows_of(const struct check *k) {
    int most = -1;
    for (int i = 0; i < k->n; i++) {
        int layer = oracle_layer_of(k->row[i].name);
        if (layer > most) most = layer;
    }
    return most + 2;                                                 /* and one for what is of no layer */
}

static void name_map(const struct check *k, struct map *m) {
    m->n_rows = rows_of(k);
    m->n_steps = k->n ? (int)k->row[k->n - 1].step : 0;
    if (m->n_steps > MOST_STEPS) m->n_steps = MOST_STEPS;
    int n_columns = m->n_steps * N_PHASES_SHOWN;
    m->row = table_new(m->n_rows, sizeof *m->row), m->row_name = table_new(m->n_rows, sizeof *m->row_name);
    m->column = table_new(n_columns, sizeof *m->column);
    m->column_name = table_new(n_columns, sizeof *m->column_name);
    for (int i = 0; i < m->n_rows; i++) {
        if (i) snprintf(m->row[i], sizeof *m->row, "layer %d", i - 1);
        m->row_name[i] = i ? m->row[i] : "ends, numbers";
    }
    for (int i = 0; i < n_columns; i++) {
        snprintf(m->column[i], sizeof *m->column, "%d %c", i / N_PHASES_SHOWN + 1, "FBNU"[i % N_PHASES_SHOWN]);
        m->column_name[i] = m->column[i];
    }
}

enum status oracle_map_svg(const struct check *k, FILE *f) {
    struct map m;
    name_map(k, &m);
    int n_columns = m.n_steps * N_PHASES_SHOWN;
    struct chart_cell *cells = table_new(m.n_rows * n_columns, sizeof *cells);
    for (int i = 0; i < m.n_rows * n_columns; i++) cells[i].series = -1;
    for (int i = 0; i < k->n; i++) {
        const struct checked *c = &k->row[i];
        int column = (int)(c->step - 1) * N_PHASES_SHOWN + phase_of(c->phase), row = oracle_layer_of(c->name) + 1;
        if (c->verdict != TENSOR_NOT_RECORDED && c->step <= m.n_steps)
            heat_up(&cells[row * n_columns + column], c, i == k->first);
    }
    chart_grid_svg(&(struct chart_grid){"Digits lost: log10 of (error / what rounding explains)", m.row_name,
                                        m.column_name, m.n_rows, n_columns, HEATS, N_HEATS, cells}, f);
    free(cells);
    free(m.row);
    free(m.row_name);
    free(m.column);
    free(m.column_name);
    return OK;
}

/* ---- the page ---- */
struct page { const char *dir; const struct oracle_page *of; };

static enum status draw_map(const void *self, FILE *f) {
    const struct oracle_page *p = self;
    return oracle_map_svg(p->check, f);
}

static void write_verdict(FILE *f, const struct oracle_page *p) {
    const struct check *k = p->check;
    if (k->first < 0) {
        fprintf(f, "<p>All right: %d tensors, each within what rounding explains.</p>\n", k->n_compared);
        return;
    }
    const struct checked *c = &k->row[k->first];
    fprintf(f, "<p>First wrong: step %" PRId64 ", %s: <code>", c->step, c->phase);
    markup_text(f, c->name);
    fprintf(f, "</code>, %.3g times what rounding explains; %d of %d tensors are wrong.</p>\n<ul>\n",
            c->error / (CHECK_FACTOR * c->scale), k->n_wrong, k->n_compared);
    for (int i = 0; i < p->n_suspects; i++) {
        fprintf(f, "<li><b>%s</b>: %s (", p->suspect[i].id, p->suspect[i].what);
        markup_text(f, p->suspect[i].detail);
        fprintf(f, "). To confirm: %s</li>\n", p->suspect[i].confirm);
    }
    fprintf(f, "</ul>\n");
}

static void write_table(FILE *f, const struct check *k) {
    enum { MOST = 20 };
    int shown = 0;
    fprintf(f, "<h2>What is wrong, in order</h2>\n<table><tr><th>step</th><th>phase</th><th>tensor</th><th>off by</th>"
               "<th>rounding explains</th><th>times too far</th></tr>\n");
    for (int i = 0; i < k->n && shown < MOST; i++) {
        const struct checked *c = &k->row[i];
        if (c->verdict == TENSOR_RIGHT || c->verdict == TENSOR_NOT_RECORDED) continue;
        shown++;
        fprintf(f, "<tr><td>%" PRId64 "</td><td>%s</td><td><code>", c->step, c->phase);
        markup_text(f, c->name);
        fprintf(f, "</code></td><td>%.2g</td><td>%.2g</td><td>%.3g</td></tr>\n", c->verdict == TENSOR_APART ? c->apart
                : c->error, CHECK_FACTOR * c->scale, c->error / (CHECK_FACTOR * c->scale));
    }
    fprintf(f, "</table>\n");
    if (k->n_wrong > MOST) fprintf(f, "<p>%d more: check.json.</p>\n", k->n_wrong - MOST);
}

static void write_calls(FILE *f, const struct calls *c) {
    enum { MOST = 20 };
    char text[CALL_TEXT_MAX];
    if (c->n_ranks == 0) return;
    fprintf(f, "<h2>What ranks called of each other</h2>\n<p>%s</p>\n",
            c->n_findings ? "Members of a group did not make the same calls:"
                          : "Members of each group made the same calls.");
    for (int i = 0; i < c->n_findings && i < MOST; i++) {
        call_finding_text(c, &c->finding[i], text, sizeof text);
        fprintf(f, "<p>");
        markup_text(f, text);
        fprintf(f, "</p>\n");
    }
    fprintf(f, "<table><tr><th>group</th><th>calls</th><th>bytes sent</th></tr>\n");
    for (int i = 0; i < c->n_groups; i++) {
        fprintf(f, "<tr><td>");
        markup_text(f, c->group[i].label);
        fprintf(f, "</td><td>%" PRId64 "</td><td>%.0f</td></tr>\n", c->group[i].calls, c->group[i].bytes);
    }
    fprintf(f, "</table>\n");
}

static enum status write_page(const void *self, FILE *f) {
    const struct page *page = self;
    static const struct page_picture MAP = {
        "map", "Where it begins, and how it spreads",
        "Rows are layers; columns are steps and their phases: F forward, B backward, N norm and clipping, U update. A "
        "cell shows its worst tensor (hover for the name); the finding is marked. What comes after the first wrong "
        "tensor may be wrong because of it.",
        draw_map};
    page_open(f, "A run against its reference");
    write_verdict(f, page->of);
    TRY(page_add(f, page->dir, &MAP, page->of));
    if (page->of->check->n_wrong) write_table(f, page->of->check);
    write_calls(f, &page->of->check->calls);
    page_close(f);
    return OK;
}

static json_t *or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *calls_json(const struct calls *c) {
    json_t *groups = json_array(), *findings = json_array();
    char text[CALL_TEXT_MAX];
    for (int i = 0; i < c->n_groups; i++)
        json_array_append_new(groups, json_pack("{s:s,s:I,s:I}", "group", c->group[i].label, "calls",
                                                (json_int_t)c->group[i].calls, "bytes",
                                                (json_int_t)(c->group[i].bytes + 0.5)));
    for (int i = 0; i < c->n_findings; i++) {
        call_finding_text(c, &c->finding[i], text, sizeof text);
        json_array_append_new(findings, json_string(text));
    }
    return json_pack("{s:o,s:o}", "groups", groups, "findings", findings);
}

static enum status write_json(const void *self, FILE *f) {
    static const char *const VERDICTS[] = {"right", "wrong", "apart", "in part", "another shape", "not recorded"};
    const struct check *k = ((const struct page *)self)->of->check;
    json_t *rows = json_array(), *root = json_pack("{s:i,s:i,s:i,s:f,s:o}", "compared", k->n_compared, "wrong",
                                                   k->n_wrong, "first", k->first, "factor", CHECK_FACTOR, "rows", rows);
    for (int i = 0; i < k->n; i++) {
        const struct checked *c = &k->row[i];
        json_t *row = json_pack("{s:I,s:s,s:s,s:s}", "step", (json_int_t)c->step, "phase", c->phase, "name", c->name,
                                "verdict", VERDICTS[c->verdict]);
        json_object_set_new(row, "error", or_null(c->error));
        json_object_set_new(row, "scale", or_null(c->scale));
        json_array_append_new(rows, row);
    }
    json_object_set_new(root, "calls", calls_json(&k->calls));
    int failed = json_dumpf(root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(4));
    json_decref(root);
    return failed ? FAIL(E_MEMORY, "no memory for check.json") : OK;
}

enum status oracle_page_write(const char *dir, const struct oracle_page *p) {
    const struct page page = {dir, p};
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) return FAIL(E_IO, "cannot make %s: %s", dir, strerror(errno));
    TRY(page_write(dir, "check.json", write_json, &page));
    return page_write(dir, "check.html", write_page, &page);
}
