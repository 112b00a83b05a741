/* The first and the last row of a step that write a gradient.
 *
 * A weight's gradient is a sum over the microbatches, and over all rows that use the weight. The first row sets the
 * gradient, unless the gradient is cleared before and every row adds. After the last row the sum is complete, and may
 * be sent. The order of the actions determines both. A tape is the same for every microbatch, so the first row is in
 * some tape's first action of the step, and the last row in some tape's last action:
 *
 *     begins(row, action)    = row.fresh and action.first
 *     completes(row, action) = row.final and action.last
 *
 * begins() is for gradients in their arena; a gradient that is a value of the chunk begins in every action. This covers
 * accumulation, tied weights, several chunks on a rank and weight gradients that are actions of their own.
 *
 * What breaks if a mark is wrong: a sum still contains the last step's gradient, or lacks a microbatch; or half a sum
 * is sent. */
#include "lib/program/gradients.h"

#include <stdlib.h>

static enum status mark_actions(struct schedule *s, int n_chunks) {
    struct action *(*latest)[N_TAPES] = calloc((size_t)n_chunks, sizeof *latest);
    if (!latest) return FAIL(E_MEMORY, "no memory for a table of %d chunks", n_chunks);
    for (int i = 0; i < s->n; i++) {
        struct action *a = &s->actions[i];
        if (!action_is_compute(a->kind)) continue;
        struct action **before = &latest[a->chunk][a->kind];
        a->first = !*before;
        a->nth = *before ? (*before)->nth + 1 : 0;
        a->last = true;
        if (*before) (*before)->last = false;
        *before = a;
    }
    free(latest);
    return OK;
}

static void begin(const struct program *p, struct row *r, bool *written) {
    const struct step *s = &p->steps[r->id];
    for (int i = 0; i < s->n_weight; i++) {
        if (r->dweight[i] != RESIDENT) continue;
        if (!written[s->weight[i]]) r->fresh |= 1u << i;
        written[s->weight[i]] = true;
    }
}

static void mark_rows(const struct program *p, const struct chunk *chunks, const struct schedule *s, bool *written,
                      struct row **latest) {
    struct row_walk at = {.ends = true};
    for (struct row *r; (r = schedule_next_row(s, chunks, &at));) {
        if (at.action->first && row_kind_is_step(r->kind)) begin(p, r, written);
        if (at.action->last && r->kind == ROW_GRAD_READY) latest[r->id] = r;
    }
}

enum status gradients_mark(struct program *p, struct chunk *chunks, struct schedule *s) {
    TRY(mark_actions(s, p->n_chunks));
    bool *written = calloc((size_t)p->n_params + 1, sizeof *written);
    struct row **latest = calloc((size_t)p->n_params + 1, sizeof *latest);
    enum status status = written && latest ? OK : FAIL(E_MEMORY, "no memory for a table of %d params", p->n_params);
    if (status == OK) mark_rows(p, chunks, s, written, latest);
    for (int i = 0; status == OK && i < p->n_params; i++) {
        struct param *w = &p->params[i];
        w->no_grad = param_is_dense(w) && w->grad_residence == RESIDENT_WHOLE && !written[i];
        if (latest[i]) latest[i]->final = true;
    }
    free(written);
    free(latest);
    return status;
}
