/* Two neighboring rows as one kernel (lib/ops/fusion.h): this file finds the pairs, once for all microbatches.
 *
 * Whether a pair may be joined depends on ops, types and overlaps of operands. Overlaps are known before memory is
 * allocated: in an action, the values of one class and role lie in one stretch of memory, and each param has a stretch
 * of its own. So the operands are bound to artificial addresses, with the stretches far apart. The addresses are
 * compared but never read.
 *
 * Events of params may lie between the two rows. PARAM_NEEDED of the second row then comes before the kernel, a little
 * earlier, and PARAM_DONE after it, a little later. But only events that move no memory may change places with the
 * kernel: the buffer of a sharded param lives from AHEAD to DONE, so these stay in place. Copies of slots may change
 * places, too, because the copied slot lives until the wait for its copy. */
#include "lib/program/lower.h"

void row_bind(const struct row *r, const struct addresses *a, struct call *c) {
    const struct step *s = c->step;
    for (int i = 0; i < s->n_in; i++) {
        c->in[i].data = a->value(a->self, r->in[i]);
        c->din[i].data = a->value(a->self, r->din[i]);
    }
    for (int i = 0; i < s->n_out; i++) {
        c->out[i].data = a->value(a->self, r->out[i]);
        c->dout[i].data = a->value(a->self, r->dout[i]);
    }
    for (int i = 0; i < s->n_weight; i++) {
        c->weight[i].data =
            r->weight[i] == RESIDENT ? a->weight(a->self, s->weight[i]) : a->value(a->self, r->weight[i]);
        c->dweight[i].data =
            r->dweight[i] == RESIDENT ? a->grad(a->self, s->weight[i]) : a->value(a->self, r->dweight[i]);
    }
    c->work = a->value(a->self, r->work);
}

/* ---- addresses without an owner ---- */
static void *in_stretch(int64_t number, int64_t offset) {
    return (void *)(uintptr_t)((number + 1) * ((int64_t)1 << 44) + offset);
}
enum { N_VALUE_STRETCHES = (SCRATCH + 1) * N_ROLES };

static void *stretch_of_value(const void *chunk, int v) {
    const struct chunk *k = chunk;
    if (v < 0) return NULL;
    const struct storage *s = &k->storages[k->values[v].storage];
    return in_stretch((int64_t)storage_class(s) * N_ROLES + s->role, s->offset);
}
static void *stretch_of_weight(const void *chunk, int param) {
    (void)chunk;
    return in_stretch(N_VALUE_STRETCHES + 2 * (int64_t)param, 0);
}
static void *stretch_of_grad(const void *chunk, int param) {
    (void)chunk;
    return in_stretch(N_VALUE_STRETCHES + 2 * (int64_t)param + 1, 0);
}

/* ---- pairs ---- */
static bool may_change_order(const struct row *r) {
    bool moves_memory = r->weight[0] != RESIDENT;
    if (row_kind_is_copy(r->kind)) return true;
    return r->kind == ROW_PARAM_NEEDED || (!moves_memory && (r->kind == ROW_PARAM_DONE || r->kind == ROW_PARAM_AHEAD));
}

/* Join row i of the tape to the next row that runs a step, if one kernel can run both. Otherwise set a kernel for row i
 * alone, if there is one. */
static void join(const struct program *p, const struct chunk *k, const struct tape *t, int i) {
    struct row *r = &t->rows[i];
    int next = i + 1;
    if (!row_kind_is_step(r->kind)) return;
    const struct call alone = program_call(p, &p->steps[r->id]);
    r->fused = fusion_of(&alone, NULL, r->kind);
    while (next < t->n && may_change_order(&t->rows[next])) next++;
    if (r->fused || next == t->n || t->rows[next].kind != fusion_second(r->kind)) return;
    const struct addresses nowhere = {k, stretch_of_value, stretch_of_weight, stretch_of_grad};
    struct call first = program_call(p, &p->steps[r->id]), second = program_call(p, &p->steps[t->rows[next].id]);
    row_bind(r, &nowhere, &first);
    row_bind(&t->rows[next], &nowhere, &second);
    r->fused = fusion_of(&first, &second, r->kind);
    if (r->fused) r->joined = next - i + 1;
}

void chunk_join(const struct program *p, struct chunk *k) {
    for (enum tape_kind tape = 0; tape < N_TAPES; tape++) {
        const struct tape *t = &k->tapes[tape];
        for (int i = 0; i < t->n; i += t->rows[i].joined) join(p, k, t, i);
    }
}
