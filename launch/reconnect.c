/* A rank whose connection has ended says so in its line of the job's memory, and waits. Often the other one has died,
 * and the connection ends a moment before that is seen. Only if both still live after that moment are they lost to
 * each other: an epoch of the same ranks makes all connections again. If one is lost in that, too, before the epoch is
 * whole, one of the two is on the wrong side of the network; without the greater one, its death is as others are. */
#include "launch/reconnect.h"

#include <stdio.h>

static const double moment_s = 0.05;

/* The first that says so, and whom. */
static bool find_lost(const struct reconnect *r, const struct plan_view *v, const struct epoch *now, int lost[2]) {
    for (int i = 0; i < now->n; i++) {
        lost[0] = now->slot[i];
        lost[1] = own_word_slot(atomic_load(&v->memory->line[lost[0]].lost), now->number);
        bool member = lost[1] >= 0 && epoch_place(now, lost[1]) >= 0;
        bool live = member && v->there[lost[0]] && v->there[lost[1]];
        if (live && lost[0] != r->ended && lost[1] != r->ended) return true;
    }
    lost[0] = lost[1] = -1;
    return false;
}

static struct plan_act end_the_greater(struct reconnect *r, const struct epoch *now) {
    int which = r->lost[0] > r->lost[1] ? r->lost[0] : r->lost[1];
    fprintf(stderr, "trivium: rank %d cannot be reached by rank %d, and is killed\n", epoch_place(now, which),
            epoch_place(now, r->lost[0] + r->lost[1] - which));
    r->ended = which;
    return (struct plan_act){.what = PLAN_END, .slot = which};
}

struct plan_act reconnect_look(struct reconnect *r, const struct plan_view *v, double now_s) {
    const struct epoch now = own_epoch_now(v->memory);
    const bool whole = own_epoch_is_whole(v->memory, &now);
    const int before[2] = {r->lost[0], r->lost[1]};
    bool any = find_lost(r, v, &now, r->lost);
    if (!any || r->lost[0] != before[0] || r->lost[1] != before[1]) r->since_s = now_s;
    if (!any || now_s < r->since_s + moment_s) return (struct plan_act){.what = PLAN_NOTHING};
    if (now.number == r->epoch && !whole) return end_the_greater(r, &now);
    struct plan_act act = {PLAN_OPEN, -1, now};
    act.next.number++;
    act.next.from = epoch_from(&now, whole);
    return act;
}

void reconnect_is_open(struct reconnect *r, const struct epoch *now, const struct plan_act *act) {
    fprintf(stderr, "trivium: ranks %d and %d have lost each other; epoch %d goes on with %d ranks\n",
            epoch_place(now, r->lost[0]), epoch_place(now, r->lost[1]), act->next.number, act->next.n);
    r->epoch = act->next.number;
}
