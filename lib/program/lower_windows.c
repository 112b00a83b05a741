/* Parameter windows. PARAM_NEEDED comes before the first row of a block that uses a param; GRAD_READY and PARAM_DONE
 * come at the end of the block. For a resident param these are only events; for a sharded one they bound the life of
 * the gathered copy, which is then a value like any other. Its life starts a block earlier, with PARAM_AHEAD, so that
 * gathering hides behind the block before. A resident param whose shards other ranks update is also announced a block
 * earlier, but only in forward, because backward still has the gathered param. Lowering runs twice: the first pass,
 * without PARAM_AHEAD, records the params that each block uses. */
#include "lib/program/lower_state.h"

#include <stdlib.h>

static void grad_close(struct lower *l, enum tape_kind tape, int param) {
    int *grad = &l->grad_window[tape][param], at = l->k->tapes[tape].n;
    bool dense = param_is_dense(&l->p->params[param]);               /* records are not sent */
    if (*grad != CLOSED && dense)
        lower_row(l, tape, ROW_GRAD_READY, param)->dweight[0] = lower_touch(l, *grad, tape, at);
    *grad = CLOSED;
}

static void weight_close(struct lower *l, enum tape_kind tape, int param) {
    int *weight = &l->weight_window[tape][param], at = l->k->tapes[tape].n;
    if (*weight != CLOSED) lower_row(l, tape, ROW_PARAM_DONE, param)->weight[0] = lower_touch(l, *weight, tape, at);
    *weight = CLOSED;
    l->announced[tape][param] = false;
}

/* Close the windows of the block's gradients, and of the weights that are not open for the next block. */
void lower_windows_close(struct lower *l, enum tape_kind tape) {
    for (int i = 0; i < l->p->n_params; i++) {
        grad_close(l, tape, i);
        if (l->weight_owner[tape][i] == l->open_block[tape]) weight_close(l, tape, i);
    }
}

static bool is_sharded(const struct lower *l, int param) {
    return l->p->params[param].weight_residence == RESIDENT_OWN;
}

static bool is_gathered(const struct lower *l, enum tape_kind tape, int param) {
    return is_sharded(l, param) || (tape == TAPE_F && param_is_gathered(&l->p->params[param]));
}

/* Open a param's window for a block. A value holds a sharded param's gathered weight; PARAM_AHEAD may
 * start to fill it. */
static void window_open(struct lower *l, enum tape_kind tape, int param, int block) {
    const struct param *w = &l->p->params[param];
    int *window = &l->weight_window[tape][param], at = l->k->tapes[tape].n;
    l->weight_owner[tape][param] = block;
    if (*window != CLOSED) return;
    int64_t bytes = w->padded_n * (int64_t)dtype_size(w->type.dtype);
    *window = is_sharded(l, param) ? lower_value(l, w->name, bytes, ROLE_COMM, tape, at) : RESIDENT;
    if (is_gathered(l, tape, param)) lower_row(l, tape, ROW_PARAM_AHEAD, param)->weight[0] = *window;
}

/* Open the windows of the params whose next user is this block. */
static void open_ahead(struct lower *l, enum tape_kind tape, int block) {
    for (int i = 0; block >= 0 && i < l->p->n_params; i++)
        if (is_gathered(l, tape, i) && l->ahead->uses[tape][block * l->p->n_params + i]) window_open(l, tape, i, block);
}

void lower_window_enter(struct lower *l, enum tape_kind tape, int block) {
    int before = l->open_block[tape];
    if (before == block) return;
    lower_windows_close(l, tape);
    if (tape == TAPE_F) lower_park(l, before);
    l->open_block[tape] = block;
    if (l->recorded && before >= 0) l->recorded->next[tape][before] = block;
    if (l->ahead && before < 0) open_ahead(l, tape, block);          /* the tape's first block: no block before it */
    if (l->ahead) open_ahead(l, tape, l->ahead->next[tape][block]);
    if (l->ahead && before < 0) lower_unpark(l, tape, block);
    if (l->ahead) lower_unpark(l, tape, l->ahead->next[tape][block]);
}

void lower_weight_open(struct lower *l, enum tape_kind tape, int param) {
    int block = l->open_block[tape];
    if (l->recorded) l->recorded->uses[tape][block * l->p->n_params + param] = true;
    if (l->announced[tape][param]) return;
    if (l->weight_window[tape][param] == CLOSED) window_open(l, tape, param, block);
    int v = l->weight_window[tape][param], at = l->k->tapes[tape].n;
    lower_row(l, tape, ROW_PARAM_NEEDED, param)->weight[0] = lower_touch(l, v, tape, at);
    l->announced[tape][param] = true;
}

/* The operand in which a param's gradient is added up: its place in the grad arena, or a new value, which is
 * reduce-scattered at GRAD_READY. */
int lower_grad_open(struct lower *l, enum tape_kind tape, int param, struct row *r, int i, int at) {
    const struct param *w = &l->p->params[param];
    int *window = &l->grad_window[tape][param];
    if (*window == CLOSED && w->grad_residence == RESIDENT_OWN) {
        *window = lower_value(l, w->name, w->padded_n * (int64_t)dtype_size(w->grad_type.dtype), ROLE_COMM, tape, at);
        r->fresh |= 1u << i;
    } else if (*window == CLOSED) {
        *window = RESIDENT;
    }
    return lower_touch(l, *window, tape, at);
}

/* ---- lookahead ---- */
void lookahead_fini(struct lookahead *f) {
    for (enum tape_kind t = 0; t < N_TAPES; t++) {
        free(f->uses[t]);
        free(f->next[t]);
    }
    free(f->slot_tape);
    free(f->slot_block);
}

bool lookahead_init(struct lookahead *f, const struct program *p) {
    *f = (struct lookahead){.slot_tape = lower_table(p->n_slots, -1), .slot_block = lower_table(p->n_slots, -1)};
    bool ok = f->slot_tape && f->slot_block;
    for (enum tape_kind t = 0; t < N_TAPES; t++) {
        f->uses[t] = calloc((size_t)p->n_blocks * (size_t)p->n_params + 1, sizeof *f->uses[t]);
        f->next[t] = lower_table(p->n_blocks, -1);
        ok = ok && f->uses[t] && f->next[t];
    }
    return ok;
}
