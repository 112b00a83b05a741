/* The schedule checker: the rules of every schedule, however it was made.
 *
 *   by itself       a stage runs F, then B (then W, if weight gradients are split off) of every chunk and microbatch,
 *                   each once
 *   transfers       a receive is directly before the action that reads the message, a send directly after the action
 *                   that made it: sent data is in scratch memory, which the next action overwrites. All virtual stages
 *                   receive except the first, and send except the last (in forward; backward is the reverse)
 *   with others     in simulation, each receive gets its own message, none is left over, and all stages finish
 *
 * What breaks: a gradient that is missing or counted twice trains a slightly different model, without any error. */
#include "pp/pp_check.h"

#include "pp/pp_timeline.h"
#include <stdlib.h>

/* The stage to check; seen: how often [kind][chunk][microbatch] has run so far. */
struct check { const struct schedule *s; int stage, n_stages, n_chunks; unsigned char *seen; };

/* Per kind of transfer: its compute action, its side of that action (-1: before), and whether the peer is below. */
static const struct transfer { enum action_kind kind, compute; int side; bool below; } TRANSFERS[] = {
    {RECV_F, ACTION_F, -1, true}, {SEND_F, ACTION_F, +1, false}, {RECV_B, ACTION_B, -1, false},
    {SEND_B, ACTION_B, +1, true}};
enum { N_TRANSFERS = sizeof TRANSFERS / sizeof *TRANSFERS };

static enum status fault(const struct check *c, int i, const char *what) {
    return FAIL(E_INTERNAL, "stage %d, action %d: %s %s", c->stage, i, action_text(&c->s->actions[i]), what);
}

static unsigned char *seen(const struct check *c, enum action_kind kind, int chunk, int microbatch) {
    return &c->seen[((size_t)kind * (size_t)c->n_chunks + (size_t)chunk) * (size_t)c->s->n_microbatches +
                    (size_t)microbatch];
}

/* ---- one stage ---- */
static enum status check_range(const struct check *c, int i) {
    const struct action *a = &c->s->actions[i];
    if ((unsigned)a->kind >= N_ACTIONS)
        return FAIL(E_INTERNAL, "stage %d, action %d: %d is no kind of action", c->stage, i, a->kind);
    if (a->chunk < 0 || a->chunk >= c->n_chunks) return fault(c, i, "is of a chunk that does not exist");
    if (a->microbatch < 0 || a->microbatch >= c->s->n_microbatches)
        return fault(c, i, "is of a microbatch that does not exist");
    if (!schedule_passes(c->s, a->chunk, a->microbatch)) return fault(c, i, "is of a microbatch of the other pipe");
    return OK;
}

static enum status check_compute(const struct check *c, int i) {
    const struct action *a = &c->s->actions[i];
    if (a->kind == ACTION_W && !c->s->split_weight)
        return fault(c, i, "in a schedule that does not split weight gradients off");
    if (a->kind != ACTION_F && !*seen(c, a->kind - 1, a->chunk, a->microbatch))
        return fault(c, i, a->kind == ACTION_B ? "comes before its forward" : "comes before its backward");
    if ((*seen(c, a->kind, a->chunk, a->microbatch))++) return fault(c, i, "comes a second time");
    return OK;
}

static bool is_at(const struct check *c, int i, enum action_kind kind, const struct action *like) {
    if (i < 0 || i >= c->s->n) return false;
    const struct action *a = &c->s->actions[i];
    return a->kind == kind && a->chunk == like->chunk && a->microbatch == like->microbatch;
}

static bool has_other_end(const struct check *c, const struct transfer *t, int chunk) {
    return c->s->hops[chunk][t->below ? HOP_BEFORE : HOP_NEXT].rank >= 0;
}

/* Every compute action has its transfers, and every transfer has its compute action. */
static enum status check_transfer(const struct check *c, int i, const struct transfer *t) {
    const struct action *a = &c->s->actions[i];
    bool wanted = has_other_end(c, t, a->chunk);
    if (a->kind == t->kind && !wanted) return fault(c, i, "goes beyond the end of the pipeline");
    if (a->kind == t->kind && !is_at(c, i - t->side, t->compute, a))
        return fault(c, i, "does not stand directly at its action");
    if (a->kind == t->compute && wanted && !is_at(c, i + t->side, t->kind, a))
        return fault(c, i, t->side < 0 ? "has no receive directly before it" : "has no send directly after it");
    return OK;
}

static enum status check_nothing_missing(const struct check *c) {
    enum action_kind last = c->s->split_weight ? ACTION_W : ACTION_B;
    for (enum action_kind kind = ACTION_F; kind <= last; kind++)
        for (int chunk = 0; chunk < c->n_chunks; chunk++)
            for (int m = 0; m < c->s->n_microbatches; m++) {
                const struct action a = action_of(kind, chunk, m);
                if (schedule_passes(c->s, chunk, m) && !*seen(c, kind, chunk, m))
                    return FAIL(E_INTERNAL, "stage %d, action %d (its end): %s is missing", c->stage, c->s->n,
                                action_text(&a));
            }
    return OK;
}

static enum status check_actions(const struct check *c) {
    for (int i = 0; i < c->s->n; i++) {
        TRY(check_range(c, i));
        if (action_is_compute(c->s->actions[i].kind)) TRY(check_compute(c, i));
    }
    for (int i = 0; i < c->s->n; i++)
        for (int t = 0; t < N_TRANSFERS; t++) TRY(check_transfer(c, i, &TRANSFERS[t]));
    return check_nothing_missing(c);
}

static enum status check_stage(const struct schedule *stages, int stage, int n_stages, int n_chunks) {
    struct check c = {&stages[stage], stage, n_stages, n_chunks, NULL};
    if (c.s->n_microbatches != stages[0].n_microbatches)
        return FAIL(E_INTERNAL, "stage %d, action 0: its schedule is of %d microbatches, and stage 0's of %d", stage,
                    c.s->n_microbatches, stages[0].n_microbatches);
    c.seen = calloc((size_t)N_TAPES * (size_t)n_chunks * (size_t)c.s->n_microbatches + 1, 1);
    enum status status = c.seen ? check_actions(&c) : FAIL(E_MEMORY, "no memory to check %d actions", c.s->n);
    free(c.seen);
    return status;
}

enum status pp_check_schedules(const struct schedule *stages, int n_stages, int n_chunks, int depth) {
    const struct pp_times timeless = {{0}, 0};
    struct timeline t;
    for (int i = 0; i < n_stages; i++) TRY(check_stage(stages, i, n_stages, n_chunks));
    enum status status = pp_timeline_make(stages, n_stages, depth, &timeless, &t);
    timeline_fini(&t);
    return status;
}
