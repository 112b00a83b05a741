#include "lib/program/schedule.h"

#include "lib/base/grow.h"
#include <stdlib.h>

const char *action_name(enum action_kind k) {
    static const char *const names[N_ACTIONS] = {"F", "B", "W", "send_F", "recv_F", "send_B", "recv_B"};
    return names[k];
}

void schedule_add(struct schedule *s, enum action_kind kind, int chunk, int microbatch) {
    s->actions = table_grow(s->actions, s->n, sizeof *s->actions);
    s->actions[s->n++] = (struct action){kind, chunk, microbatch};
}

struct hop schedule_hop(const struct schedule *s, const struct action *a) {
    if (!s->hops) return (struct hop){-1, -1, 0};
    return s->hops[a->chunk][a->kind == SEND_F || a->kind == RECV_B ? HOP_NEXT : HOP_BEFORE];
}

int schedule_channel(const struct schedule *s, const struct action *a) {
    return schedule_hop(s, a).way + (a->kind == SEND_B || a->kind == RECV_B);
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
