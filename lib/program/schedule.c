#include "lib/program/schedule.h"

#include "lib/base/grow.h"
#include <stdlib.h>

const char *action_name(enum action_kind k) {
    static const char *const names[N_ACTIONS] = {"F", "B", "W", "send_F", "recv_F", "send_B", "recv_B"};
    return names[k];
}

void schedule_add(struct schedule *s, enum action_kind kind, int chunk, int microbatch) {
    s->actions = table_grow(s->actions, s->n, sizeof *s->actions);
    s->actions[s->n++] = action_of(kind, chunk, microbatch);
}

struct hop schedule_hop(const struct schedule *s, const struct action *a) {
    if (!s->hops) return (struct hop){-1, -1, 0};
    return s->hops[a->chunk][a->kind == SEND_F || a->kind == RECV_B ? HOP_NEXT : HOP_BEFORE];
}

int schedule_channel(const struct schedule *s, const struct action *a) {
    return schedule_hop(s, a).way + (a->kind == SEND_B || a->kind == RECV_B);
}

const int *chunk_moves(const struct chunk *k, enum action_kind transfer) {
    if (transfer == RECV_F || transfer == SEND_F) return transfer == RECV_F ? k->in : k->out;
    return transfer == RECV_B ? k->dout : k->din;
}

int64_t chunk_moved_bytes(const struct chunk *k, enum action_kind transfer) {
    int64_t bytes = 0;
    for (int i = 0, v; i < MAX_STREAMS; i++)
        if ((v = chunk_moves(k, transfer)[i]) >= 0) bytes += k->values[v].bytes;
    return bytes;
}

bool schedule_passes(const struct schedule *s, int chunk, int microbatch) {
    return s->n_pipes < 2 || (microbatch >= (s->n_microbatches + 1) / 2) == chunk;
}

struct row *schedule_next_row(const struct schedule *s, const struct chunk *chunks, struct row_walk *w) {
    for (; w->next_action < s->n; w->next_action++, w->next_row = 0) {
        w->action = &s->actions[w->next_action];
        if (!action_is_compute(w->action->kind)) continue;
        if (w->ends && !w->action->first && !w->action->last) continue;
        const struct tape *t = &chunks[w->action->chunk].tapes[w->action->kind];
        if (w->next_row < t->n) return &t->rows[w->next_row++];
    }
    return NULL;
}

size_t schedule_n_rows(const struct schedule *s, const struct chunk *chunks) {
    size_t n = 0;
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        if (action_is_compute(a->kind)) n += (size_t)chunks[a->chunk].tapes[a->kind].n;
    }
    return n;
}

void schedule_copy(const struct schedule *s, int n_chunks, struct schedule *out) {
    *out = *s;
    out->actions = table_copy(s->actions, s->n, sizeof *s->actions);
    out->hops = table_copy(s->hops, n_chunks, sizeof *s->hops);
}

void schedule_fini(struct schedule *s) {
    free(s->hops);
    free(s->actions);
    *s = (struct schedule){0};
}

enum status schedule_accumulate(int n_microbatches, struct schedule *out) {
    *out = (struct schedule){.n_microbatches = n_microbatches};
    for (int m = 0; m < n_microbatches; m++) {
        schedule_add(out, ACTION_F, 0, m);
        schedule_add(out, ACTION_B, 0, m);
    }
    return OK;
}
