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

void schedule_fini(struct schedule *s) {
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
