#include "lib/program/bill.h"

#include "lib/base/grow.h"
#include "lib/comm/sums_rows.h"

void bill_exchange(struct bill *b, const struct mesh_place *place, struct exchange x) {
    b->exchanges = table_grow(b->exchanges, b->n_exchanges, sizeof *b->exchanges);
    b->exchanges[b->n_exchanges++] = x;
    b->wire_bytes[x.axis] += exchange_bytes(&x, mesh_size(x.axis, place));
}

void bill_saved(struct bill *b, int64_t bytes) {
    if (bytes > 0) b->technique_save_bytes = arena_align(b->technique_save_bytes) + bytes;
}

void bill_fini(struct bill *b) {
    free(b->exchanges);
    free(b->updates);
    *b = (struct bill){0};
}

/* ---- rows ---- */
static int exchanges_of(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    for (int i = 0; i < MAX_EXCHANGES; i++) out[i] = (struct exchange){.axis = (enum mesh_axis)c->step->mesh_axis};
    return c->step->op->exchanges ? c->step->op->exchanges(c, kind, out) : 0;
}

double bill_row_bytes(const struct call *c, enum row_kind kind) {
    struct exchange x[MAX_EXCHANGES];
    double bytes = 0;
    for (int i = 0, n = exchanges_of(c, kind, x); i < n; i++) bytes += exchange_bytes(&x[i], c->step->parts);
    return bytes;
}

static void bill_row(const struct program *p, const struct row *r, int64_t times, struct bill *b) {
    if (r->kind > ROW_BACKWARD_WEIGHT) return;
    struct exchange x[MAX_EXCHANGES];
    struct call types = program_call(p, &p->steps[r->id]);
    b->flops[r->kind] += (double)times * op_cost(&types, r->kind).flops;
    for (int i = 0, n = exchanges_of(&types, r->kind, x); i < n; i++)
        x[i].times = times, bill_exchange(b, &p->place, x[i]);
    struct exchange sums[MAX_WEIGHTS];
    bool by_leaves = p->fixed_sums && r->kind == ROW_BACKWARD_WEIGHT;
    for (int i = 0, n = by_leaves ? sums_exchanges(&types, sums) : 0; i < n; i++)
        sums[i].times = times, bill_exchange(b, &p->place, sums[i]);
}

static void bill_copy(const struct chunk *k, const struct row *r, int64_t times, struct bill *b) {
    if (r->kind == ROW_PARK || r->kind == ROW_UNPARK) b->parked_bytes += times * k->values[r->in[0]].bytes;
}

/* The number of times that a step runs this action. */
static int64_t times_of(const struct schedule *s, enum action_kind kind, int chunk) {
    int64_t times = 0;
    for (int i = s->n_fill; i < s->n; i++) times += s->actions[i].kind == kind && s->actions[i].chunk == chunk;
    return times;
}

void bill_rows(const struct program *p, const struct chunk *chunks, const struct schedule *s, struct bill *b) {
    for (int c = 0; c < p->n_chunks; c++)
        for (int kind = ACTION_F; kind < N_TAPES; kind++) {
            const struct tape *t = &chunks[c].tapes[kind];
            int64_t times = times_of(s, (enum action_kind)kind, c);
            for (int i = 0; i < t->n && times; i++) bill_row(p, &t->rows[i], times, b);
            for (int i = 0; i < t->n; i++) bill_copy(&chunks[c], &t->rows[i], times, b);
        }
}

/* ---- messages of the pipeline ---- */
/* The tensors that leave a chunk: forward, its last block's outputs; backward, the gradients of its first block's
 * inputs. */
static const int *boundary(const struct program *p, int chunk, bool forward) {
    const int *slots = NULL;
    for (int i = 0; i < p->n_blocks; i++) {
        if (p->blocks[i].chunk != chunk) continue;
        if (!forward) return p->blocks[i].in;
        slots = p->blocks[i].out;
    }
    return slots;
}

static void bill_send(const struct program *p, const int *slots, int64_t times, struct bill *b) {
    bool along = false;
    for (int i = 0; i < MAX_STREAMS; i++) {
        if (slots[i] < 0) continue;
        const struct type *type = &p->slots[slots[i]].type;
        bill_exchange(b, &p->place, (struct exchange){.axis = AXIS_PP, .op = COMM_SEND, .count = type_n(type),
                                                      .dtype = type->dtype, .times = times, .when = BESIDE_BLOCKS,
                                                      .along = along});
        along = true;
    }
}

void bill_sends(const struct program *p, const struct schedule *s, struct bill *b) {
    for (int c = 0; c < p->n_chunks; c++)
        for (int forward = 0; forward < 2; forward++) {
            enum action_kind kind = forward ? SEND_F : SEND_B;
            const struct action send = {.kind = kind, .chunk = c};
            int64_t times = times_of(s, kind, c);
            if (times == 0 || schedule_hop(s, &send).rank == s->rank) continue;
            bill_send(p, boundary(p, c, forward), times, b);
        }
}
