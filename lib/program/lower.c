/* Steps -> rows over values.
 *
 * The forward tape has the steps in order. The backward tape has the steps in reverse, and for each step the light
 * weight gradient first (so that dx may overwrite dy), then dx, then the heavy weight gradient (so that it runs while
 * dx is being summed over tp). For each slot that a backward row reads, lowering finds the value: it was kept, or it is
 * computed again (a replay). Events before and after the rows that use a param bound its window (lower_windows.c). */
#include "lib/program/lower_state.h"

#include "lib/base/grow.h"
#include "lib/comm/sums_rows.h"
#include <stdlib.h>
#include <string.h>

int *lower_table(int n, int initial) {
    int *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int i = 0; x && i < n; i++) x[i] = initial;
    return x;
}

static int *steps_of_chunk(const struct program *p, int chunk, int *n) {
    int *steps = lower_table(p->n_steps, -1);
    for (int i = *n = 0; steps && i < p->n_steps; i++)
        if (p->blocks[p->steps[i].block].chunk == chunk) steps[(*n)++] = i;
    return steps;
}

static bool lower_init(struct lower *l, const struct program *p, int chunk, struct chunk *k) {
    *l = (struct lower){.p = p, .k = k, .open_block = {-1, -1, -1}};
    l->activation = lower_table(p->n_slots, NO_VALUE);
    l->replayed = lower_table(p->n_slots, NO_VALUE);
    l->gradient = lower_table(p->n_slots, NO_VALUE);
    l->producer = lower_table(p->n_slots, -1);
    l->steps = steps_of_chunk(p, chunk, &l->n_steps);
    bool ok = l->activation && l->replayed && l->gradient && l->producer && l->steps && lower_park_init(l);
    for (enum tape_kind t = 0; t < N_TAPES; t++) {
        l->weight_window[t] = lower_table(p->n_params, CLOSED);
        l->grad_window[t] = lower_table(p->n_params, CLOSED);
        l->weight_owner[t] = lower_table(p->n_params, -1);
        l->announced[t] = calloc((size_t)p->n_params + 1, sizeof *l->announced[t]);
        ok = ok && l->weight_window[t] && l->grad_window[t] && l->weight_owner[t] && l->announced[t];
    }
    for (int i = 0; ok && i < l->n_steps; i++) {
        const struct step *s = &p->steps[l->steps[i]];
        for (int o = 0; o < s->n_out; o++) l->producer[s->out[o]] = l->steps[i];
    }
    if (ok) lower_park_begin(l);
    return ok;
}

static void lower_fini(struct lower *l) {
    free(l->activation);
    free(l->replayed);
    free(l->gradient);
    free(l->producer);
    free(l->steps);
    lower_park_fini(l);
    for (enum tape_kind t = 0; t < N_TAPES; t++) {
        free(l->weight_window[t]);
        free(l->grad_window[t]);
        free(l->weight_owner[t]);
        free(l->announced[t]);
    }
}

/* ---- values and rows ---- */
int lower_value(struct lower *l, const char *name, int64_t bytes, enum role role, enum tape_kind tape, int row) {
    struct chunk *k = l->k;
    k->values = table_grow(k->values, k->n_values, sizeof *k->values);
    k->values[k->n_values] = (struct value){name, bytes, role, {tape, row}, {tape, row}, NO_VALUE, TIER_DEVICE};
    return k->n_values++;
}

static int slot_value(struct lower *l, int slot, enum tape_kind tape, int row) {
    const struct slot *s = &l->p->slots[slot];
    return lower_value(l, s->name, type_bytes(&s->type), ROLE_ACT, tape, row);
}
static int gradient_value(struct lower *l, int slot, enum tape_kind tape, int row) {
    const struct slot *s = &l->p->slots[slot];
    return lower_value(l, s->name, type_bytes(&s->grad_type), ROLE_ACT, tape, row);
}

/* A row uses the value, so the value lives at least until this row. */
int lower_touch(struct lower *l, int v, enum tape_kind tape, int row) {
    if (v < 0) return v;
    struct row_time *death = &l->k->values[v].death;
    if (tape > death->tape || (tape == death->tape && row > death->row)) *death = (struct row_time){tape, row};
    return v;
}

struct row *lower_row(struct lower *l, enum tape_kind tape, enum row_kind kind, int id) {
    struct tape *t = &l->k->tapes[tape];
    t->rows = table_grow(t->rows, t->n, sizeof *t->rows);
    struct row *r = &t->rows[t->n++];
    memset(r, -1, sizeof *r);                                        /* every operand NO_VALUE */
    r->kind = kind;
    r->id = id;
    r->accumulate = r->fresh = 0;
    r->final = false;
    r->fused = NULL;
    r->joined = 1;
    return r;
}

/* ---- forward, and replay ---- */
static void emit_forward(struct lower *l, int id, enum tape_kind tape, enum row_kind kind, int *where);

static bool is_view(const struct step *s) { return s->op->forward_alias == ALIAS_VIEW; }

static int kept(struct lower *l, int slot, enum tape_kind tape) {
    if (l->recorded) lower_note_read(l, slot, tape);
    return l->parked[slot] < 0 ? l->activation[slot] : lower_unparked(l, slot, tape);
}

/* The value of a slot for a backward row (or a replay) to read. A value that no row of this chunk computes (a
 * neighbor's activations, data) is kept even if it is marked for recomputation. */
static int require(struct lower *l, int slot, enum tape_kind tape) {
    int from = l->producer[slot];
    if (from >= 0 && is_view(&l->p->steps[from])) return require(l, l->p->steps[from].in[0], tape);
    if (from < 0 || !l->p->slots[slot].replay) return kept(l, slot, tape);
    if (l->replayed[slot] < 0) emit_forward(l, from, tape, ROW_REPLAY, l->replayed);
    return l->replayed[slot];
}

static int work_value(struct lower *l, const struct step *s, enum row_kind kind, enum tape_kind tape, int at) {
    struct call types = program_call(l->p, s);
    bool by_leaves = l->p->fixed_sums && kind == ROW_BACKWARD_WEIGHT;
    int64_t bytes = by_leaves ? sums_work(&types) : op_work(&types, kind);
    return bytes > 0 ? lower_value(l, "work", bytes, ROLE_WORK, tape, at) : NO_VALUE;
}

static void emit_forward(struct lower *l, int id, enum tape_kind tape, enum row_kind kind, int *where) {
    const struct step *s = &l->p->steps[id];
    int in[MAX_IN];
    for (int i = 0; i < s->n_in; i++) in[i] = kind == ROW_REPLAY ? require(l, s->in[i], tape) : l->activation[s->in[i]];
    if (is_view(s)) {
        where[s->out[0]] = in[0];
        return;
    }
    for (int i = 0; i < s->n_weight; i++) lower_weight_open(l, tape, s->weight[i]);
    int at = l->k->tapes[tape].n;
    struct row *r = lower_row(l, tape, kind, id);
    for (int i = 0; i < s->n_in; i++) r->in[i] = lower_touch(l, in[i], tape, at);
    for (int i = 0; i < s->n_weight; i++) r->weight[i] = lower_touch(l, l->weight_window[tape][s->weight[i]], tape, at);
    for (int i = 0; i < s->n_out; i++) r->out[i] = where[s->out[i]] = slot_value(l, s->out[i], tape, at);
    r->work = work_value(l, s, kind, tape, at);
}

/* ---- backward ---- */
static void require_operands(struct lower *l, const struct step *s, unsigned need_in, unsigned need_out,
                             enum tape_kind tape, int *in, int *out) {
    for (int i = 0; i < s->n_in; i++) in[i] = need_in >> i & 1 ? require(l, s->in[i], tape) : NO_VALUE;
    for (int i = 0; i < s->n_out; i++) out[i] = need_out >> i & 1 ? require(l, s->out[i], tape) : NO_VALUE;
}

static void read_operands(struct lower *l, const struct step *s, struct row *r, const int *in, const int *out,
                          enum tape_kind tape, int at) {
    for (int i = 0; i < s->n_in; i++) r->in[i] = lower_touch(l, in[i], tape, at);
    for (int i = 0; i < s->n_out; i++) r->out[i] = lower_touch(l, out[i], tape, at);
    for (int i = 0; i < s->n_out; i++)
        if (!(s->op->no_grad_out >> i & 1)) r->dout[i] = lower_touch(l, l->gradient[s->out[i]], tape, at);
}

static void emit_backward_weight(struct lower *l, int id, enum tape_kind tape) {
    const struct step *s = &l->p->steps[id];
    int in[MAX_IN], out[MAX_OUT];
    lower_window_enter(l, tape, s->block);
    require_operands(l, s, s->op->needs.bw_in, s->op->needs.bw_out, tape, in, out);
    int at = l->k->tapes[tape].n;
    struct row *r = lower_row(l, tape, ROW_BACKWARD_WEIGHT, id);
    read_operands(l, s, r, in, out, tape, at);
    for (int i = 0; i < s->n_weight; i++) r->dweight[i] = lower_grad_open(l, tape, s->weight[i], r, i, at);
    r->work = work_value(l, s, ROW_BACKWARD_WEIGHT, tape, at);
}

/* Does a VIEW pass the gradient on without a kernel? No if another use of the slot has left a gradient there. */
static bool passes_through(const struct lower *l, const struct step *s, int i) {
    return s->op->backward_alias == ALIAS_VIEW && i == s->op->alias_in && l->gradient[s->in[i]] < 0;
}

static bool needs_no_kernel(const struct lower *l, const struct step *s) {
    for (int i = 0; i < s->n_in; i++)
        if (!(s->op->no_grad_in >> i & 1) && !passes_through(l, s, i)) return false;
    return true;
}

static void emit_backward_input(struct lower *l, int id, enum tape_kind tape) {
    const struct step *s = &l->p->steps[id];
    const struct needs *n = &s->op->needs;
    int in[MAX_IN], out[MAX_OUT];
    if (needs_no_kernel(l, s)) {
        l->gradient[s->in[s->op->alias_in]] = l->gradient[s->out[0]];
        return;
    }
    lower_window_enter(l, tape, s->block);
    require_operands(l, s, n->bi_in, n->bi_out, tape, in, out);
    for (int i = 0; i < s->n_weight; i++)
        if (n->bi_weight >> i & 1) lower_weight_open(l, tape, s->weight[i]);
    int at = l->k->tapes[tape].n;
    struct row *r = lower_row(l, tape, ROW_BACKWARD_INPUT, id);
    read_operands(l, s, r, in, out, tape, at);
    for (int i = 0; i < s->n_weight; i++)
        if (n->bi_weight >> i & 1) r->weight[i] = lower_touch(l, l->weight_window[tape][s->weight[i]], tape, at);
    for (int i = 0; i < s->n_in; i++) {
        int *grad = &l->gradient[s->in[i]];
        if (s->op->no_grad_in >> i & 1) continue;
        if (*grad >= 0) r->accumulate |= 1u << i;
        else *grad = passes_through(l, s, i) ? r->dout[0] : gradient_value(l, s->in[i], tape, at);
        r->din[i] = lower_touch(l, *grad, tape, at);
    }
    for (int i = 0; i < s->n_weight && op_input_adds_weights(s->op); i++)
        r->dweight[i] = lower_grad_open(l, tape, s->weight[i], r, i, at);
    r->work = work_value(l, s, ROW_BACKWARD_INPUT, tape, at);
}

/* ---- a chunk ---- */
static bool reads_slot(const struct lower *l, int slot) {
    for (int i = 0; i < l->n_steps && slot >= 0; i++) {
        const struct step *s = &l->p->steps[l->steps[i]];
        for (int k = 0; k < s->n_in; k++)
            if (s->in[k] == slot) return true;
    }
    return false;
}

/* A value that is written before forward starts: data, or a neighbor's activations. */
static int external(struct lower *l, int slot) { return slot_value(l, slot, TAPE_F, -1); }

/* Find the outputs of a step that are terms of the loss. If several ranks compute the same term, one of them counts
 * it. */
static void find_losses(struct lower *l, const struct step *s) {
    struct chunk *k = l->k;
    for (int i = 0; i < s->n_out; i++) {
        if (!(s->op->loss_out >> i & 1)) continue;
        if (!mesh_speaks(shape_cuts(&l->p->slots[s->in[0]].type.shape), &l->p->place)) continue;
        int value = lower_touch(l, l->activation[s->out[i]], TAPE_F, k->tapes[TAPE_F].n);
        k->losses = table_grow(k->losses, k->n_losses, sizeof *k->losses);
        k->losses[k->n_losses++] = (struct loss_value){value, l->p->slots[s->out[i]].type.dtype};
    }
}

static void lower_forward(struct lower *l, const int *in, const int *out) {
    struct chunk *k = l->k;
    const struct program *p = l->p;
    for (int i = 0; i < MAX_STREAMS; i++)
        if (in[i] >= 0) k->in[i] = l->activation[in[i]] = external(l, in[i]);
    for (int d = 0; d < N_DATA; d++)
        if (reads_slot(l, p->data[d])) k->data[d] = l->activation[p->data[d]] = external(l, p->data[d]);
    if (reads_slot(l, p->features)) k->features = l->activation[p->features] = external(l, p->features);
    for (int i = 0; i < l->n_steps; i++) {
        lower_window_enter(l, TAPE_F, p->steps[l->steps[i]].block);
        emit_forward(l, l->steps[i], TAPE_F, ROW_FORWARD, l->activation);
    }
    lower_windows_close(l, TAPE_F);
    lower_park(l, l->open_block[TAPE_F]);
    lower_park_end(l);
    for (int i = 0; i < MAX_STREAMS; i++)
        if (out[i] >= 0) k->out[i] = lower_touch(l, l->activation[out[i]], TAPE_F, k->tapes[TAPE_F].n);
    if (p->loss >= 0 && l->producer[p->loss] >= 0)
        k->loss = lower_touch(l, l->activation[p->loss], TAPE_F, k->tapes[TAPE_F].n);
    if (p->scores >= 0 && l->producer[p->scores] >= 0)
        k->scores = lower_touch(l, l->activation[p->scores], TAPE_F, k->tapes[TAPE_F].n);
    for (int i = 0; i < l->n_steps; i++) find_losses(l, &p->steps[l->steps[i]]);
}

/* Decide whether the training loss is complete only after the backward tape. The loss is read at the end of its
 * tape. */
static void loss_in_backward(struct lower *l) {
    struct chunk *k = l->k;
    if (k->loss < 0 || !l->p->steps[l->producer[l->p->loss]].op->all_in_backward) return;
    k->loss_tape = TAPE_B;
    lower_touch(l, k->loss, TAPE_B, k->tapes[TAPE_B].n);
}

static bool next_is_asynchronous(const struct lower *l, int i) {
    return i > 0 && l->p->steps[l->steps[i - 1]].op->async_backward;
}

/* Does the step read only data? Data have no gradient. */
static bool reads_data_only(const struct lower *l, int id) {
    const struct step *s = &l->p->steps[id];
    return s->n_in == 1 && s->in[0] == l->p->features;
}

/* Do the input gradients of steps i and i - 1 run as one kernel (lib/ops/fusion.h)? Then no row may stand between the
 * two: weight gradients move after the pair, replays before it. The answer is yes only on a GPU, but there even with
 * --fuse off, because memory is planned before rows are joined. */
static bool joins_next(const struct lower *l, int i) {
    if (i == 0 || l->p->device != DEVICE_CUDA) return false;
    const struct step *s = &l->p->steps[l->steps[i]], *next = &l->p->steps[l->steps[i - 1]];
    return fusion_listed(s->op, next->op, ROW_BACKWARD_INPUT) && s->in[0] == next->out[0] && s->block == next->block;
}

static void replay_before(struct lower *l, const struct step *s, const struct step *next) {
    int in[MAX_IN], out[MAX_OUT];
    lower_window_enter(l, TAPE_B, s->block);
    require_operands(l, next, next->op->needs.bi_in, next->op->needs.bi_out, TAPE_B, in, out);
    require_operands(l, s, s->op->needs.bw_in, s->op->needs.bw_out, TAPE_B, in, out);
}

static void lower_backward(struct lower *l, bool split_weight) {
    for (int i = l->n_steps - 1, held = -1; i >= 0; i--) {
        int id = l->steps[i];
        const struct op *op = l->p->steps[id].op;
        if (op->has_backward_weight && !op->defer_weight) emit_backward_weight(l, id, TAPE_B);
        if (joins_next(l, i)) replay_before(l, &l->p->steps[id], &l->p->steps[l->steps[i - 1]]);
        if (op->has_backward_input && !reads_data_only(l, id)) emit_backward_input(l, id, TAPE_B);
        int started = l->k->tapes[TAPE_B].n - 1;
        if (held >= 0) emit_backward_weight(l, held, TAPE_B);     /* overlaps with the started exchange */
        held = -1;
        if (op->async_backward) {
            l->k->tapes[TAPE_B].rows[started].wait = l->k->tapes[TAPE_B].n;
            lower_row(l, TAPE_B, ROW_WAIT, id);
        }
        if (op->has_backward_weight && op->defer_weight && !split_weight) {
            if (next_is_asynchronous(l, i) || joins_next(l, i)) held = id;
            else emit_backward_weight(l, id, TAPE_B);
        }
    }
}

/* Tape W runs after tape B. So W may read a value that B replayed, but B cannot read a value that W replayed. */
static void lower_deferred(struct lower *l) {
    for (int i = l->n_steps - 1; i >= 0; i--)
        if (l->p->steps[l->steps[i]].op->defer_weight) emit_backward_weight(l, l->steps[i], TAPE_W);
}

static void chunk_init(struct chunk *k) {
    *k = (struct chunk){.loss = NO_VALUE, .features = NO_VALUE, .scores = NO_VALUE};
    for (int i = 0; i < MAX_STREAMS; i++) k->in[i] = k->out[i] = k->din[i] = k->dout[i] = NO_VALUE;
    for (int d = 0; d < N_DATA; d++) k->data[d] = NO_VALUE;
}

static void lower_all(struct lower *l, bool split_weight) {
    const struct program *p = l->p;
    const int *in = p->blocks[p->steps[l->steps[0]].block].in;
    const int *out = p->blocks[p->steps[l->steps[l->n_steps - 1]].block].out;
    lower_forward(l, in, out);
    if (p->forward_only) return;
    for (int i = 0; i < MAX_STREAMS; i++)
        if (out[i] >= 0) l->k->dout[i] = l->gradient[out[i]] = gradient_value(l, out[i], TAPE_B, -1);
    lower_backward(l, split_weight);
    if (split_weight) lower_deferred(l);
    lower_windows_close(l, TAPE_B);
    loss_in_backward(l);
    lower_windows_close(l, TAPE_W);
    for (int i = 0; i < MAX_STREAMS; i++)
        if (in[i] >= 0) l->k->din[i] = lower_touch(l, l->gradient[in[i]], TAPE_B, l->k->tapes[TAPE_B].n);
}

/* Are weights gathered, or slots parked, one block before their use? */
static bool must_look_ahead(const struct program *p) {
    for (int i = 0; i < p->n_params; i++)
        if (param_is_gathered(&p->params[i])) return true;
    for (int i = 0; i < p->n_slots; i++)
        if (p->slots[i].park) return true;
    return false;
}

/* One pass over the chunk's steps; either of recorded and ahead may be NULL. */
static enum status lower_pass(const struct program *p, int chunk, bool split_weight, struct lookahead *recorded,
                              const struct lookahead *ahead, struct chunk *k) {
    struct lower l;
    chunk_init(k);
    enum status status = OK;
    if (!lower_init(&l, p, chunk, k)) status = FAIL(E_MEMORY, "no memory to lower %d steps", p->n_steps);
    else if (l.n_steps == 0) status = FAIL(E_INTERNAL, "chunk %d has no steps", chunk);
    l.recorded = recorded;
    l.ahead = ahead;
    if (status == OK) lower_all(&l, split_weight);
    lower_fini(&l);
    return status;
}

static enum status lower_looking_ahead(const struct program *p, int chunk, bool split_weight, struct chunk *k) {
    struct lookahead f;
    enum status status = lookahead_init(&f, p) ? OK : FAIL(E_MEMORY, "no memory to look %d blocks ahead", p->n_blocks);
    if (status == OK) status = lower_pass(p, chunk, split_weight, &f, NULL, k);
    if (status == OK) {
        chunk_fini(k);
        status = lower_pass(p, chunk, split_weight, NULL, &f, k);
    }
    lookahead_fini(&f);
    return status;
}

enum status chunk_lower(const struct program *p, int chunk, bool split_weight, struct chunk *k) {
    TRY(must_look_ahead(p) ? lower_looking_ahead(p, chunk, split_weight, k)
                       : lower_pass(p, chunk, split_weight, NULL, NULL, k));
    return chunk_place(p, k);
}

void chunk_fini(struct chunk *k) {
    for (enum tape_kind t = 0; t < N_TAPES; t++) free(k->tapes[t].rows);
    free(k->values);
    free(k->storages);
    free(k->losses);
    chunk_init(k);
}
