/* Schedules from a file: one line per rank, cells separated by commas.
 *
 *     # two ranks, two microbatches, 1F1B
 *     0F0, 0F1, 0B0, 0B1
 *     1F0, 1B0, 1F1, 1B1
 *
 * A cell is a virtual stage, a letter and a microbatch: F forward, B backward; or I and W, the gradients of the input
 * and of the weights apart. Empty cells are skipped, # begins a comment. Transfers are derived: a receive before the
 * action that reads it, a send after the action that makes it. The placement is derived, too, from the rank that runs a
 * stage. `trivium schedule --csv` writes any schedule in one direction as such a file. */
#include "pp/pp_table.h"

#include "lib/base/grow.h"
#include "lib/base/input.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1 << 20, MAX_NUMBER = 1 << 16, MAX_CELLS = 1 << 22 };

/* ---- cells ---- */
/* Read a number of at most MAX_NUMBER and advance *at. -1: there is no number. */
static int take_number(const char **at) {
    int n = -1;
    for (; isdigit((unsigned char)**at) && n <= MAX_NUMBER; (*at)++) n = (n < 0 ? 0 : 10 * n) + **at - '0';
    return n <= MAX_NUMBER ? n : -1;
}

static enum status read_cell(const struct pp_table *t, const char *text, struct pp_cell *c) {
    const char *at = text, *letter;
    c->stage = take_number(&at);
    letter = *at ? strchr("FBIW", *at) : NULL;
    if (letter) at++;
    c->microbatch = take_number(&at);
    if (c->stage < 0 || c->microbatch < 0 || !letter || *at)
        return FAIL(E_CONFIG, "%s, line %d, cell %d: \"%.40s\" is no action; write one as 0F3 and 0B3, or 0I3 and 0W3",
                    t->path, c->line, c->cell, text);
    c->kind = *letter == 'F' ? ACTION_F : *letter == 'W' ? ACTION_W : ACTION_B;
    return OK;
}

/* B makes both gradients, I and W one each. A table has either B cells, or I and W cells. */
static enum status note_split(struct pp_table *t, const char *text, const struct pp_cell *c, const char **first) {
    bool split = c->kind == ACTION_W || (c->kind == ACTION_B && strchr(text, 'I'));
    if (c->kind == ACTION_F) return OK;
    if (!*first) *first = split ? "I and W" : "B", t->row.split_weight = split;
    if (split == t->row.split_weight) return OK;
    return FAIL(E_CONFIG,
                "%s, line %d, cell %d: \"%s\" in a table that has %s; use B (both gradients) or I and W, not all",
                t->path, c->line, c->cell, text, *first);
}

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]);) text[--n] = 0;
    return text;
}

static enum status read_line(struct pp_table *t, char *text, int line, const char **first) {
    text[strcspn(text, "#")] = 0;
    if (!*trimmed(text)) return OK;
    t->ranks = table_grow(t->ranks, t->n_ranks, sizeof *t->ranks);
    struct pp_line *r = &t->ranks[t->n_ranks++];
    *r = (struct pp_line){.line = line};
    for (int cell = 1; text; cell++) {
        char *end = strchr(text, ',');
        if (end) *end = 0;
        char *word = trimmed(text);
        text = end ? end + 1 : NULL;
        if (!*word) continue;
        struct pp_cell c = {.line = line, .cell = cell};
        TRY(read_cell(t, word, &c));
        TRY(note_split(t, word, &c, first));
        r->cells = table_grow(r->cells, r->n, sizeof *r->cells);
        r->cells[r->n++] = c;
    }
    return OK;
}

/* ---- the rank of each stage ---- */
static void note_largest(struct pp_table *t) {
    for (int i = 0; i < t->n_ranks; i++)
        for (int k = 0; k < t->ranks[i].n; k++) {
            const struct pp_cell *c = &t->ranks[i].cells[k];
            if (c->stage >= t->n_stages) t->n_stages = c->stage + 1;
            if (c->microbatch >= t->n_microbatches) t->n_microbatches = c->microbatch + 1;
        }
}

static enum status find_places(struct pp_table *t) {
    note_largest(t);
    if (t->n_stages == 0)
        return FAIL(E_CONFIG, "%s has no action; write one line for each rank, as in 0F0, 0B0", t->path);
    t->at = table_new(t->n_stages, sizeof *t->at);
    for (int s = 0; s < t->n_stages; s++) t->at[s].rank = -1;
    for (int i = 0; i < t->n_ranks; i++)
        for (int k = 0; k < t->ranks[i].n; k++) {
            const struct pp_cell *c = &t->ranks[i].cells[k];
            int *rank = &t->at[c->stage].rank;
            if (*rank >= 0 && *rank != i)
                return FAIL(E_CONFIG,
                            "%s, line %d, cell %d: stage %d is on line %d's rank already; a stage is on one rank",
                            t->path, c->line, c->cell, c->stage, t->ranks[*rank].line);
            *rank = i;
        }
    return OK;
}

/* Number each rank's chunks in the order of the model; all ranks must have equally many. */
static enum status number_chunks(struct pp_table *t) {
    int *chunks = table_new(t->n_ranks, sizeof *chunks), few = 0;
    enum status status = OK;
    for (int s = 0; s < t->n_stages && status == OK; s++)
        if (t->at[s].rank < 0)
            status = FAIL(E_CONFIG, "%s: stage %d is on no line, and stage %d is the last; number them without a gap",
                          t->path, s, t->n_stages - 1);
        else t->at[s].chunk = chunks[t->at[s].rank]++;
    for (int i = 0; i < t->n_ranks && status == OK; i++)
        if (chunks[i] < chunks[few]) few = i;
    t->n_chunks = chunks[0];
    for (int i = 0; i < t->n_ranks && status == OK; i++)
        if (chunks[i] != chunks[few])
            status = FAIL(E_CONFIG, "%s, line %d: %d stages, and line %d has %d; give every rank as many", t->path,
                          t->ranks[i].line, chunks[i], t->ranks[few].line, chunks[few]);
    free(chunks);
    return status;
}

/* ---- the file ---- */
static enum status read_lines(const char *path, struct pp_table *t) {
    struct input in;
    const char *first = NULL;
    enum status status = input_open(&in, "schedule=file:", path, INPUT_STREAM | INPUT_KEPT, MAX_LINE);
    while (status == OK && (status = input_line(&in)) == OK && in.n > 0)
        status = read_line(t, in.text, (int)in.number, &first);
    input_close(&in);
    return status;
}

enum status pp_table_read(const char *path, struct pp_table **out) {
    struct pp_table *t = *out = table_new(1, sizeof *t);
    snprintf(t->path, sizeof t->path, "%s", path);
    TRY(read_lines(path, t));
    TRY(find_places(t));
    TRY(number_chunks(t));
    pp_table_make_row(t);
    return pp_table_check(t);
}

void pp_table_free(struct pp_table **table) {
    struct pp_table *t = *table;
    for (int i = 0; t && i < t->n_ranks; i++) free(t->ranks[i].cells);
    if (t) free(t->ranks), free(t->at);
    free(t);
    *table = NULL;
}

enum status pp_table_of(const char *path, const struct pp_table **out) {
    static struct pp_table *kept;
    if (!kept || strncmp(kept->path, path, sizeof kept->path - 1) != 0) {
        pp_table_free(&kept);
        enum status status = pp_table_read(path, &kept);
        if (status != OK) pp_table_free(&kept);
        TRY(status);
    }
    *out = kept;
    return OK;
}
