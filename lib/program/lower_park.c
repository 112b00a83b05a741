/* Slots that are kept in host memory between forward and backward (slot.park): the rows that copy them there and back.
 *
 *   F   block b ... | PARK x  block b + 1 ... | COPIED x        x: a slot that b's forward was the last to read
 *   B   UNPARK x  block b + 1 ... | COPIED x  block b ...       x: a slot that b's backward is the first to read
 *
 * PARK and UNPARK start a copy, and COPIED waits for it, so each copy overlaps with a block's computation. A slot is
 * three values: one on the device until its COPIED in F, one in host memory from PARK to the COPIED in B, and a new one
 * on the device from UNPARK on. So between F and B the slot takes no memory of the device. The planner packs all three
 * values like any others.
 *
 * A slot is kept, replayed or parked. Replayed slots, and slots that no row of backward reads, are never copied. Inputs
 * of replays may be parked like all others.
 *
 * Source: Rajbhandari et al. 2021, "ZeRO-Infinity", section 5.1.1 (activation checkpoints in host memory). */
#include "lib/program/lower_state.h"

#include <stdlib.h>

static bool is_view(const struct step *s) { return s->op->forward_alias == ALIAS_VIEW; }

/* The slot that has the value: a view has no value of its own, so it returns the slot that it is a view of. */
static int slot_behind(const struct lower *l, int slot) {
    int from = l->producer[slot];
    return from >= 0 && is_view(&l->p->steps[from]) ? slot_behind(l, l->p->steps[from].in[0]) : slot;
}

/* ---- parked slots, and the times of their copies ---- */
void lower_park_begin(struct lower *l) {
    for (int i = 0; i < l->n_steps; i++) {
        const struct step *s = &l->p->steps[l->steps[i]];
        for (int k = 0; k < s->n_in; k++) l->last_block[slot_behind(l, s->in[k])] = s->block;
        for (int k = 0; k < s->n_out; k++) l->last_block[slot_behind(l, s->out[k])] = s->block;
    }
}

bool lower_park_init(struct lower *l) {
    l->last_block = lower_table(l->p->n_slots, -1);
    l->parked = lower_table(l->p->n_slots, NO_VALUE);
    l->unparked = lower_table(l->p->n_slots, NO_VALUE);
    l->copy = calloc((size_t)l->p->n_slots + 1, sizeof *l->copy);
    return l->last_block && l->parked && l->unparked && l->copy;
}

void lower_park_fini(struct lower *l) {
    free(l->last_block);
    free(l->parked);
    free(l->unparked);
    free(l->copy);
}

void lower_note_read(struct lower *l, int slot, enum tape_kind tape) {
    if (l->recorded->slot_tape[slot] >= 0) return;
    l->recorded->slot_tape[slot] = (int)tape;
    l->recorded->slot_block[slot] = l->open_block[tape];
}

/* Is the slot parked? Not if backward replays it, because then it does not read forward's value. */
static bool is_parked(const struct lower *l, int slot) {
    return l->p->slots[slot].park && l->activation[slot] >= 0 && l->ahead->slot_tape[slot] >= 0;
}

/* ---- rows ---- */
static void start_copy(struct lower *l, enum tape_kind tape, int slot, int from, int *to) {
    int at = l->k->tapes[tape].n;
    struct row *r = lower_row(l, tape, tape == TAPE_F ? ROW_PARK : ROW_UNPARK, slot);
    r->in[0] = lower_touch(l, from, tape, at);
    r->out[0] = *to = lower_value(l, l->p->slots[slot].name, l->k->values[from].bytes, ROLE_ACT, tape, at);
    l->k->values[*to].tier = tape == TAPE_F ? TIER_HOST : TIER_DEVICE;
    l->copy[slot] = COPY_STARTED;
}

static void await_copy(struct lower *l, enum tape_kind tape, int slot, int from, int to) {
    if (l->copy[slot] != COPY_STARTED) return;
    int at = l->k->tapes[tape].n;
    struct row *r = lower_row(l, tape, ROW_COPIED, slot);
    r->in[0] = lower_touch(l, from, tape, at);
    r->out[0] = lower_touch(l, to, tape, at);
    l->copy[slot] = COPY_DONE;
}

/* ---- forward ---- */
void lower_park_end(struct lower *l) {
    for (int i = 0; i < l->p->n_slots; i++) await_copy(l, TAPE_F, i, l->activation[i], l->parked[i]);
}

void lower_park(struct lower *l, int block) {
    if (!l->ahead || block < 0) return;
    lower_park_end(l);                                               /* these copies have overlapped with the block */
    for (int i = 0; i < l->p->n_slots; i++)
        if (l->last_block[i] == block && is_parked(l, i)) start_copy(l, TAPE_F, i, l->activation[i], &l->parked[i]);
}

/* ---- backward ---- */
void lower_unpark(struct lower *l, enum tape_kind tape, int block) {
    for (int i = 0; i < l->p->n_slots && block >= 0; i++)
        if (l->parked[i] >= 0 && l->unparked[i] < 0 && l->ahead->slot_tape[i] == (int)tape &&
            l->ahead->slot_block[i] == block)
            start_copy(l, tape, i, l->parked[i], &l->unparked[i]);
}

int lower_unparked(struct lower *l, int slot, enum tape_kind tape) {
    if (l->unparked[slot] < 0) start_copy(l, tape, slot, l->parked[slot], &l->unparked[slot]);
    await_copy(l, tape, slot, l->parked[slot], l->unparked[slot]);
    return l->unparked[slot];
}
