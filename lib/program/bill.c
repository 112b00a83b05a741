#include "lib/program/bill.h"

static void bill_row(const struct program *p, const struct row *r, struct bill *b) {
    if (r->kind > ROW_BACKWARD_WEIGHT) return;
    const struct step *s = &p->steps[r->id];
    struct call types = program_call(p, s);
    struct cost cost = op_cost(&types, r->kind);
    b->flops[r->kind] += cost.flops;
    b->wire_bytes[s->mesh_axis] += cost.wire_bytes;
}

void bill_rows(const struct program *p, const struct chunk *chunks, const struct schedule *s, struct bill *b) {
    for (int i = 0; i < s->n; i++) {
        if (!action_is_compute(s->actions[i].kind)) continue;
        const struct tape *t = &chunks[s->actions[i].chunk].tapes[s->actions[i].kind];
        for (int j = 0; j < t->n; j++) bill_row(p, &t->rows[j], b);
    }
}

void bill_sends(const struct chunk *chunks, const struct schedule *s, struct bill *b) {
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        const struct chunk *k = &chunks[a->chunk];
        if (action_is_compute(a->kind) || schedule_hop(s, a).rank == s->rank) continue;
        if (a->kind == SEND_F) b->wire_bytes[AXIS_PP] += (double)k->values[k->out].bytes;
        if (a->kind == SEND_B) b->wire_bytes[AXIS_PP] += (double)k->values[k->din].bytes;
    }
}
