/* The rules of a user's table, each with the line and the cell that breaks it.
 *
 *   once        every stage's F and B (or F, I, W) of every microbatch, and in this order
 *   neighbors   a stage is on the rank of the stage before it, or on its neighbor in the ring: messages go no further
 *   in order    messages from one rank to another in one direction are received in the order in which they are sent
 *   the end     no cycle of ranks that wait for each other */
#include "pp/pp_table.h"

#include "lib/base/grow.h"
#include <stdlib.h>
#include <string.h>

/* The index of each action in its rank's line; -1: the table does not have the action. */
struct index { const struct pp_table *t; int *number; };

static int *number_of(const struct index *x, enum action_kind kind, int stage, int microbatch) {
    return &x->number[(kind * x->t->n_stages + stage) * x->t->n_microbatches + microbatch];
}

const char *pp_cell_text(const struct pp_table *t, const struct pp_cell *c) {
    static char texts[2][80];
    static int turn;
    char *text = texts[turn ^= 1], letter = c->kind == ACTION_B && t->row.split_weight ? 'I' : "FBW"[c->kind];
    snprintf(text, sizeof texts[0], "%d%c%d (line %d, cell %d)", c->stage, letter, c->microbatch, c->line, c->cell);
    return text;
}

static enum status fault(const struct pp_table *t, const struct pp_cell *c, const char *what) {
    return FAIL(E_CONFIG, "%s: %s %s", t->path, pp_cell_text(t, c), what);
}

/* ---- once, and in order ---- */
static enum status check_cell(const struct index *x, int rank, int k) {
    const struct pp_cell *c = &x->t->ranks[rank].cells[k];
    int *number = number_of(x, c->kind, c->stage, c->microbatch);
    if (*number >= 0)
        return FAIL(E_CONFIG, "%s: %s is there a second time, after cell %d; leave one out", x->t->path,
                    pp_cell_text(x->t, c), x->t->ranks[rank].cells[*number].cell);
    if (c->kind != ACTION_F && *number_of(x, c->kind - 1, c->stage, c->microbatch) < 0)
        return fault(x->t, c,
                     c->kind == ACTION_B ? "comes before its F, or has none" : "comes before its I, or has none");
    *number = k;
    return OK;
}

static enum status check_missing(const struct index *x) {
    const struct pp_table *t = x->t;
    for (int s = 0; s < t->n_stages; s++)
        for (int m = 0; m < t->n_microbatches; m++)
            for (enum action_kind kind = ACTION_F; kind <= (t->row.split_weight ? ACTION_W : ACTION_B); kind++)
                if (*number_of(x, kind, s, m) < 0)
                    return FAIL(E_CONFIG, "%s, line %d: %d%c%d is missing; there are %d microbatches", t->path,
                                t->ranks[t->at[s].rank].line, s, t->row.split_weight ? "FIW"[kind] : "FB"[kind], m,
                                t->n_microbatches);
    return OK;
}

/* ---- neighbors ---- */
static enum status check_neighbors(const struct pp_table *t) {
    for (int s = 0; s + 1 < t->n_stages; s++) {
        int from = t->at[s].rank, to = t->at[s + 1].rank, apart = abs(from - to);
        if (apart > 1 && apart < t->n_ranks - 1)
            return FAIL(E_CONFIG,
                        "%s: stage %d is on line %d and stage %d on line %d; a message goes to the next rank or the "
                        "one "
                        "before: move one of them",
                        t->path, s, t->ranks[from].line, s + 1, t->ranks[to].line);
    }
    return OK;
}

/* ---- messages ---- */
/* The action of another rank that this action waits for, or NULL. */
static const struct pp_cell *awaited(const struct index *x, const struct pp_cell *c) {
    int from = c->kind == ACTION_F ? c->stage - 1 : c->stage + 1;
    if (c->kind == ACTION_W || from < 0 || from >= x->t->n_stages) return NULL;
    int rank = x->t->at[from].rank;
    return &x->t->ranks[rank].cells[*number_of(x, c->kind, from, c->microbatch)];
}

/* Messages on one channel must be received in the order in which they are sent. */
static enum status check_order(const struct index *x, int rank) {
    const struct pp_table *t = x->t;
    const struct pp_line *r = &t->ranks[rank];
    for (int k = 1; k < r->n; k++) {
        const struct pp_cell *now = &r->cells[k], *sent = awaited(x, now);
        for (int j = k - 1; sent && j >= 0; j--) {
            const struct pp_cell *before = &r->cells[j], *sent_before = awaited(x, before);
            if (!sent_before || before->kind != now->kind || sent_before->line != sent->line) continue;
            if (sent->cell < sent_before->cell)
                return FAIL(E_CONFIG, "%s: %s is received after %s, and sent before it; messages arrive in order",
                            t->path, pp_cell_text(t, now), pp_cell_text(t, before));
            break;
        }
    }
    return OK;
}

/* ---- the end ---- */
static bool is_done(const struct index *x, const int *done, const struct pp_cell *c) {
    return done[x->t->at[c->stage].rank] > *number_of(x, c->kind, c->stage, c->microbatch);
}

static enum status check_end(const struct index *x, int *done) {
    const struct pp_table *t = x->t;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < t->n_ranks; i++)
            for (const struct pp_cell *wait; done[i] < t->ranks[i].n; done[i]++, moved = true)
                if ((wait = awaited(x, &t->ranks[i].cells[done[i]])) && !is_done(x, done, wait)) break;
    }
    for (int i = 0; i < t->n_ranks; i++) {
        if (done[i] == t->ranks[i].n) continue;
        const struct pp_cell *here = &t->ranks[i].cells[done[i]], *wait = awaited(x, here);
        int other = t->at[wait->stage].rank;
        const struct pp_cell *there = &t->ranks[other].cells[done[other]];
        return FAIL(E_CONFIG, "%s: a deadlock: %s waits for %d%c%d, which line %d runs after cell %d, which waits, too",
                    t->path, pp_cell_text(t, here), wait->stage,
                    wait->kind == ACTION_F ? 'F'
                    : t->row.split_weight  ? 'I'
                                           : 'B',
                    wait->microbatch, there->line, there->cell);
    }
    return OK;
}

static enum status check_all(const struct index *x, int *done) {
    const struct pp_table *t = x->t;
    for (int i = 0; i < t->n_ranks; i++)
        for (int k = 0; k < t->ranks[i].n; k++) TRY(check_cell(x, i, k));
    TRY(check_missing(x));
    TRY(check_neighbors(t));
    TRY(check_end(x, done));
    for (int i = 0; i < t->n_ranks; i++) TRY(check_order(x, i));
    return OK;
}

enum status pp_table_check(const struct pp_table *t) {
    size_t n = (size_t)N_TAPES * (size_t)t->n_stages * (size_t)t->n_microbatches;
    if (n > 1 << 26)
        return FAIL(E_CONFIG, "%s: %d stages x %d microbatches; use fewer", t->path, t->n_stages, t->n_microbatches);
    struct index x = {t, table_new((int)n, sizeof(int))};
    int *done = table_new(t->n_ranks, sizeof *done);
    memset(x.number, -1, n * sizeof(int));
    enum status status = check_all(&x, done);
    free(done);
    free(x.number);
    return status;
}
