/* The walk: declared types, then the steps forward, then backward in reverse, and then the run's sums of gradients. */
#include "lib/types/types.h"

#include "lib/base/grow.h"
#include "lib/types/types_rules.h"
#include <stdlib.h>

struct walk {
    const struct program *p;
    const char *rewrite;
    struct types *t;
    bool *made, *used, *read;    /* by slot: a step makes the slot; reads it; gives it a gradient */
};

#define REFUSE(w, format, ...) FAIL(E_INTERNAL, "types after %s: " format, (w)->rewrite, __VA_ARGS__)

const char *spread_text(struct spread x) {
    static char texts[8][8];
    static int next;
    char *text = texts[next++ % 8];
    static const char *const kinds[] = {"-", "R", "S(?)", "P", "V"};
    snprintf(text, sizeof *texts, "%s", kinds[x.kind]);
    if (x.kind == SHARDED) text[2] = x.tag;
    return text;
}

/* ---- tensors that no step makes ---- */
static enum status declare_slots(struct walk *w) {
    for (int i = 0; i < w->p->n_slots; i++) {
        const struct slot *x = &w->p->slots[i];
        if (w->used[i] && !w->made[i])
            TRY(types_declared(w->p, &w->t->factors, &x->type.shape, x->name, w->rewrite, &w->t->slot[i]));
    }
    return OK;
}

static enum status declare_params(struct walk *w) {
    for (int i = 0; i < w->p->n_params; i++) {
        const struct param *x = &w->p->params[i];
        if (x->present && !x->cache)
            TRY(types_declared(w->p, &w->t->factors, &x->type.shape, x->name, w->rewrite, &w->t->param[i]));
    }
    return OK;
}

static void note_uses(struct walk *w) {
    for (int i = 0; i < w->p->n_steps; i++) {
        const struct step *s = &w->p->steps[i];
        for (int k = 0; k < s->n_out; k++) w->made[s->out[k]] = true;
        for (int k = 0; k < s->n_in; k++) w->used[s->in[k]] = true;
        for (int k = 0; k < s->n_in; k++) w->read[s->in[k]] |= !(s->op->no_grad_in >> k & 1);
    }
}

/* ---- a step over a factor ---- */
static struct typing_at load(const struct walk *w, const struct step *s, int f) {
    const struct factors *x = &w->t->factors;
    struct typing_at a = {.p = w->p, .s = s, .rewrite = w->rewrite, .factor = x->at[f].name,
                          .over = x->over[s->mesh_axis] >> f & 1};
    for (int k = 0; k < s->n_in; k++) a.in[k] = w->t->slot[s->in[k]].at[f];
    for (int k = 0; k < s->n_out; k++) a.out[k] = w->t->slot[s->out[k]].at[f];
    for (int k = 0; k < s->n_out; k++) a.dout[k] = w->t->slot_grad[s->out[k]].at[f];
    for (int k = 0; k < s->n_weight; k++) a.weight[k] = w->t->param[s->weight[k]].at[f];
    return a;
}

/* Does the step's axis touch this factor, without being a product of factors? */
static bool is_untyped(const struct walk *w, const struct typing_at *a) {
    return a->over && !w->t->factors.exact[a->s->mesh_axis];
}

static enum status forward_over(struct walk *w, const struct step *s, int f) {
    struct typing_at a = load(w, s, f);
    const struct typing_rules *rules = &typing_rules[s->op->typing];
    if (is_untyped(w, &a))
        for (int k = 0; k < s->n_out; k++) a.out[k] = spread_of(VARYING, 0);
    else TRY(rules->forward(&a));
    for (int k = 0; k < s->n_out; k++) w->t->slot[s->out[k]].at[f] = a.out[k];
    return OK;
}

static enum status forward(struct walk *w) {
    for (int i = 0; i < w->p->n_steps && w->t->factors.n; i++) {
        const struct step *s = &w->p->steps[i];
        TRY(types_check_statement(w->p, s, w->rewrite));
        for (int f = 0; f < w->t->factors.n; f++) TRY(forward_over(w, s, f));
        for (int k = 0; k < s->n_out; k++) {
            const struct slot *y = &w->p->slots[s->out[k]];
            TRY(types_agree(w->p, &w->t->factors, &y->type.shape, y->name, w->rewrite, &w->t->slot[s->out[k]]));
        }
    }
    return OK;
}

/* ---- backward ---- */
static bool fits_gradient(struct spread x, struct spread dx) {
    if (spread_is(dx, SPREAD_NONE) || spread_is(x, VARYING) || spread_is(dx, VARYING)) return true;
    if (spread_is(x, SHARDED)) return spread_alike(x, dx);
    return spread_is(dx, REPLICATED) || (spread_is(x, REPLICATED) && spread_is(dx, PARTIAL));
}

static enum status add_gradient(const struct walk *w, const struct typing_at *a, const char *name, struct spread x,
                                struct spread dx, struct spread *sum) {
    if (!fits_gradient(x, dx))
        return REFUSE(w, "%s over %s: its gradient from %s is %s, and it is %s (rule %s)", name,
                      a->factor, w->p->slots[a->s->out[0]].name, spread_text(dx), spread_text(x),
                      typing_rules[a->s->op->typing].name);
    if (!spread_is(*sum, SPREAD_NONE) && !spread_is(dx, SPREAD_NONE) && !spread_alike(*sum, dx) &&
        !spread_is(*sum, VARYING) && !spread_is(dx, VARYING))
        return REFUSE(w, "%s over %s: its gradient from %s is %s, from other steps %s; they cannot be added (rule "
                      "%s)", name, a->factor, w->p->slots[a->s->out[0]].name, spread_text(dx),
                      spread_text(*sum), typing_rules[a->s->op->typing].name);
    if (spread_is(*sum, SPREAD_NONE) || spread_is(dx, VARYING)) *sum = dx;
    return OK;
}

static bool has_gradient(const struct step *s, const struct typing_at *a) {
    bool any = s->op->no_grad_out & 1 && s->op->has_backward_input;  /* a loss takes no gradient */
    for (int k = 0; k < s->n_out; k++) any |= !spread_is(a->dout[k], SPREAD_NONE);
    return any;
}

static enum status backward_over(struct walk *w, const struct step *s, int f) {
    struct typing_at a = load(w, s, f);
    if (!has_gradient(s, &a)) return OK;
    for (int k = 0; k < s->n_in && is_untyped(w, &a); k++) a.din[k] = spread_of(VARYING, 0);
    for (int k = 0; k < s->n_weight && is_untyped(w, &a); k++) a.dweight[k] = spread_of(VARYING, 0);
    if (!is_untyped(w, &a)) TRY(typing_rules[s->op->typing].backward(&a));
    for (int k = 0; k < s->n_in; k++)
        if (s->op->has_backward_input && !(s->op->no_grad_in >> k & 1))
            TRY(add_gradient(w, &a, w->p->slots[s->in[k]].name, a.in[k], a.din[k],
                             &w->t->slot_grad[s->in[k]].at[f]));
    for (int k = 0; k < s->n_weight; k++)
        TRY(add_gradient(w, &a, w->p->params[s->weight[k]].name, a.weight[k], a.dweight[k],
                         &w->t->param_grad[s->weight[k]].at[f]));
    return OK;
}

/* A slot that leaves the program for the next stage is no partial sum, and its gradient comes back with the same
 * type. */
static enum status end_at(struct walk *w, int slot) {
    for (int f = 0; f < w->t->factors.n; f++) {
        struct spread x = w->t->slot[slot].at[f];
        if (spread_is(x, PARTIAL))
            return REFUSE(w, "%s over %s: P, a partial sum, and it leaves the program", w->p->slots[slot].name,
                          w->t->factors.at[f].name);
        w->t->slot_grad[slot].at[f] = x;
    }
    return OK;
}

/* A slot that comes from the stage before: its gradient goes back to that stage, and is no partial sum. */
static enum status check_entry(const struct walk *w, int slot) {
    for (int f = 0; f < w->t->factors.n; f++)
        if (spread_is(w->t->slot_grad[slot].at[f], PARTIAL))
            return REFUSE(w, "%s over %s: its gradient is P, a partial sum, and it leaves the program",
                          w->p->slots[slot].name, w->t->factors.at[f].name);
    return OK;
}

static enum status backward(struct walk *w) {
    for (int i = w->p->n_steps - 1; i >= 0; i--) {
        const struct step *s = &w->p->steps[i];
        for (int k = 0; k < s->n_out; k++)
            if (!w->read[s->out[k]] && !(s->op->no_grad_out >> k & 1)) TRY(end_at(w, s->out[k]));
        for (int f = 0; f < w->t->factors.n && !w->p->forward_only; f++) TRY(backward_over(w, s, f));
    }
    for (int i = 0; i < w->p->n_slots; i++)
        if (!w->made[i]) TRY(check_entry(w, i));
    return OK;
}

/* ---- the whole walk ---- */
static enum status infer(struct walk *w) {
    note_uses(w);
    TRY(declare_slots(w));
    TRY(declare_params(w));
    TRY(forward(w));
    TRY(backward(w));
    return types_check_run(w->p, w->t, w->rewrite);
}

enum status types_infer(const struct program *p, const char *rewrite, struct types *t) {
    *t = (struct types){factors_of(&p->place), table_new(p->n_slots, sizeof *t->slot),
                        table_new(p->n_slots, sizeof *t->slot_grad), table_new(p->n_params, sizeof *t->param),
                        table_new(p->n_params, sizeof *t->param_grad)};
    struct walk w = {p, rewrite, t, table_new(p->n_slots, sizeof *w.made), table_new(p->n_slots, sizeof *w.used),
                     table_new(p->n_slots, sizeof *w.read)};
    enum status status = infer(&w);
    free(w.made);
    free(w.used);
    free(w.read);
    return status;
}

void types_fini(struct types *t) {
    free(t->slot);
    free(t->slot_grad);
    free(t->param);
    free(t->param_grad);
    *t = (struct types){.slot = NULL};
}

enum status types_check(const struct program *p, const char *rewrite) {
    struct types t;
    enum status status = types_infer(p, rewrite, &t);
    types_fini(&t);
    return status;
}
