/* Storage of values: decides which values are written over each other, and the offset of each storage.
 *
 * An in-place op writes its result over its operand. That is allowed when the operand dies in that very row, the result
 * is born there, and both have the same size and role. This file decides about it after all lifetimes are known; an op
 * only declares that its kernel can work in place. Backward may also write over activations that it reads; then the
 * bytes of a frame become a gradient (the logits, the largest tensor, become dlogits). */
#include "lib/program/lower.h"

#include <stdlib.h>

static bool later(struct row_time a, struct row_time b) { return a.tape != b.tape ? a.tape > b.tape : a.row > b.row; }
static bool same_time(struct row_time a, struct row_time b) { return a.tape == b.tape && a.row == b.row; }

static void share(struct chunk *k, int operand, int result, struct row_time now) {
    if (operand < 0 || result < 0 || operand == result) return;
    const struct value *from = &k->values[operand];
    struct value *to = &k->values[result];
    struct storage *s = &k->storages[from->storage];
    if (from->bytes != to->bytes || from->role != to->role || !same_time(to->birth, now)) return;
    if (later(from->death, now) || later(s->death, now)) return;
    k->storages[to->storage].bytes = 0;                /* the result is in the operand's storage, so its own is empty */
    to->storage = from->storage;
    s->death = to->death;
}

/* Operands of an asynchronous row stay alive until its wait. Called after storages are shared, so that this holds for
 * an operand that is written in place. */
static void keep_until_wait(struct chunk *k, const struct row *r, enum tape_kind tape) {
    const int flying[] = {r->dout[0], r->din[0], r->work};
    struct row_time end = {tape, r->wait};
    for (int i = 0; i < 3; i++) {
        if (flying[i] < 0) continue;
        struct storage *s = &k->storages[k->values[flying[i]].storage];
        if (later(end, s->death)) s->death = end;
    }
}

static void share_row(const struct program *p, struct chunk *k, enum tape_kind tape, int i) {
    const struct row *r = &k->tapes[tape].rows[i];
    struct row_time now = {tape, i};
    if (r->kind > ROW_BACKWARD_INPUT) return;
    const struct op *op = p->steps[r->id].op;
    if (r->kind != ROW_BACKWARD_INPUT) {
        if (op->forward_alias == ALIAS_IN_PLACE) share(k, r->in[0], r->out[0], now);
    } else if (op->backward_alias == ALIAS_IN_PLACE && !(r->accumulate >> op->alias_in & 1)) {
        share(k, r->dout[0], r->din[op->alias_in], now);
    } else if (op->backward_over_in && !(r->accumulate & 1)) {
        share(k, r->in[0], r->din[0], now);
    }
    if (r->wait >= 0) keep_until_wait(k, r, tape);
}

static void make_storages(const struct program *p, struct chunk *k) {
    for (int v = 0; v < k->n_values; v++) {
        struct value *x = &k->values[v];
        x->storage = v;
        k->storages[v] = (struct storage){x->bytes, 0, x->role, x->birth, x->death, x->tier, -1};
    }
    for (enum tape_kind t = 0; t < N_TAPES; t++)
        for (int i = 0; i < k->tapes[t].n; i++) share_row(p, k, t, i);
}

/* List the storages that die in each row, for painting. To search all storages at every row took a sixth of the tests'
 * time. */
static void list_dying(struct chunk *k) {
    for (enum tape_kind t = 0; t < N_TAPES; t++)
        for (int i = 0; i < k->tapes[t].n; i++) k->tapes[t].rows[i].dying = -1;
    for (int i = k->n_storages - 1; i >= 0; i--) {
        struct storage *s = &k->storages[i];
        const struct tape *t = &k->tapes[s->death.tape];
        if (!s->bytes || s->death.row < 0 || s->death.row >= t->n) continue;
        s->next_dying = t->rows[s->death.row].dying;
        t->rows[s->death.row].dying = i;
    }
}

enum frame_class storage_class(const struct storage *s) {
    if (s->tier == TIER_HOST) return s->death.tape == TAPE_B ? PARKED_FB : PARKED_FW;
    if (s->birth.tape == s->death.tape) return SCRATCH;
    if (s->birth.tape == TAPE_B) return FRAME_BW;
    return s->death.tape == TAPE_B ? FRAME_FB : FRAME_FW;
}

/* All values of a frame are alive at the same time, between two tapes, so no two share bytes. */
static void place_frames(enum device_kind on, struct chunk *k) {
    for (int i = 0; i < k->n_storages; i++) {
        struct storage *s = &k->storages[i];
        enum frame_class c = storage_class(s);
        if (!s->bytes || c == SCRATCH) continue;
        s->offset = arena_align_on(on, k->frame_bytes[c]);
        k->frame_bytes[c] = s->offset + s->bytes;
    }
}

static enum status place_scratch(enum device_kind on, struct chunk *k, enum tape_kind tape, enum role role,
                                 struct interval *x) {
    struct packing packing;
    int n = 0;
    for (int i = 0; i < k->n_storages; i++) {
        const struct storage *s = &k->storages[i];
        if (!s->bytes || s->role != role || storage_class(s) != SCRATCH || s->birth.tape != tape) continue;
        x[n++] = (struct interval){s->bytes, 0, s->birth.row, s->death.row, i};
    }
    TRY(interval_pack(x, n, on, &packing));
    k->scratch_bytes[tape][role] = packing.extent;
    k->scratch_floor[tape][role] = packing.floor;
    for (int i = 0; i < n; i++) k->storages[x[i].id].offset = x[i].offset;
    return OK;
}

enum status chunk_place(const struct program *p, struct chunk *k) {
    size_t n = (size_t)k->n_values + 1;
    struct interval *x = malloc(n * sizeof *x);
    k->storages = calloc(n, sizeof *k->storages);
    k->n_storages = k->n_values;
    if (!x || !k->storages) {
        free(x);
        return FAIL(E_MEMORY, "no memory for the plan of %d values", k->n_values);
    }
    make_storages(p, k);
    list_dying(k);
    place_frames(p->device, k);
    enum status status = OK;
    for (enum tape_kind t = 0; t < N_TAPES; t++)
        for (enum role role = 0; role < N_ROLES && status == OK; role++)
            status = place_scratch(p->device, k, t, role, x);
    free(x);
    return status;
}
