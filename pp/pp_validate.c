/* How far a step may go on weights that may be wrong (--optim-sync validate; lib/run/update.h).
 *
 * Early actions of a stage are its first forwards: all actions before the first backward, which writes gradients. If
 * the weights were wrong, all stages run their early actions again. Before that no stage runs a later action, so an
 * early action may only wait for actions that are early on their own stages: the cut is *consistent*.
 *
 *   early(stage)  = the longest beginning of its order without a backward, whose receives all have early sends
 *
 * The cut begins at the first backward. While some receive before the cut has a late send, the cut moves back to that
 * receive. On a line it never moves, because every stage warms up longer than the next. On a V it may move.
 *
 * A message sent early may be received late. If stages run again, each first drops the messages in flight to it, which
 * under_way counts by channel. In ZB-H2 with p = 4, m = 8, stage 0 has 7 early forwards and stage 1 has 5, so two
 * messages are in flight.
 *
 * The idea of a consistent cut: Chandy and Lamport 1985. */
#include "pp/pp_schedule.h"

#include "lib/base/grow.h"
#include <stdlib.h>

static int first_backward(const struct schedule *s) {
    int i = 0;
    while (i < s->n && s->actions[i].kind != RECV_B && s->actions[i].kind != ACTION_B) i++;
    return i;
}

/* Is this receive's message sent by an early action? */
static bool sent_early(const struct schedule *stages, const struct schedule *s, const struct action *receive) {
    struct hop from = schedule_hop(s, receive);
    const struct schedule *sender = &stages[from.rank];
    for (int i = 0; i < sender->n_early; i++) {
        const struct action *a = &sender->actions[i];
        if (a->kind == SEND_F && a->chunk == from.chunk && a->microbatch == receive->microbatch) return true;
    }
    return false;
}

/* @return did the cut move? */
static bool move_cut(const struct schedule *stages, struct schedule *s) {
    for (int i = 0; i < s->n_early; i++)
        if (s->actions[i].kind == RECV_F && !sent_early(stages, s, &s->actions[i])) {
            s->n_early = i;
            return true;
        }
    return false;
}

/* By channel: early messages to this stage, minus the messages that it receives early. */
static void count_under_way(const struct schedule *stages, int n_stages, struct schedule *out) {
    for (int k = 0; k < n_stages; k++)
        for (int i = 0; i < stages[k].n_early; i++) {
            const struct action *a = &stages[k].actions[i];
            if (a->kind == SEND_F && schedule_hop(&stages[k], a).rank == out->rank)
                out->under_way[schedule_channel(&stages[k], a)]++;
        }
    for (int i = 0; i < out->n_early; i++)
        if (out->actions[i].kind == RECV_F) out->under_way[schedule_channel(out, &out->actions[i])]--;
}

void pp_validate(const struct pp_schedule *row, const struct pp_shape *x, struct schedule *out) {
    struct schedule *stages = table_new(x->n_stages, sizeof *stages);
    bool moved = true;
    pp_schedules_make(row, x, stages);
    for (int i = 0; i < x->n_stages; i++) stages[i].n_early = first_backward(&stages[i]);
    while (moved) {
        moved = false;
        for (int i = 0; i < x->n_stages; i++) moved |= move_cut(stages, &stages[i]);
    }
    out->validates = true;
    out->n_early = stages[out->rank].n_early;
    count_under_way(stages, x->n_stages, out);
    for (int i = 0; i < x->n_stages; i++) schedule_fini(&stages[i]);
    free(stages);
}
