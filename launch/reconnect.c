/* A rank whose connection has ended records the loss in its line of the job's memory, and waits. Often its peer has
 * died, and the connection ends a moment before the agent sees the death. If both ranks still live after that moment,
 * an epoch of the same ranks makes all connections again. If a connection of that epoch ends too, before the epoch is
 * committed, the network separates its two ranks. Then the one with the greater slot is killed, a death as others. */
#include "launch/reconnect.h"

#include <stdio.h>

static const double moment_s = 0.05;

/* lost: the first member that has lost its connection to a live member, and that member; or -1, -1. */
static bool find_lost(const struct reconnect *r, const struct members *v, const struct membership *now, int lost[2]) {
    for (int i = 0; i < now->n; i++) {
        lost[0] = now->slot[i];
        lost[1] = own_word_slot(atomic_load(&v->memory->line[lost[0]].lost), now->number);
        bool member = lost[1] >= 0 && membership_place(now, lost[1]) >= 0;
        bool live = member && v->there[lost[0]] && v->there[lost[1]];
        if (live && lost[0] != r->ended && lost[1] != r->ended) return true;
    }
    lost[0] = lost[1] = -1;
    return false;
}

static struct membership_act end_the_greater(struct reconnect *r, const struct membership *now) {
    int which = r->lost[0] > r->lost[1] ? r->lost[0] : r->lost[1];
    fprintf(stderr, "trivium: rank %d cannot be reached by rank %d, and is killed\n", membership_place(now, which),
            membership_place(now, r->lost[0] + r->lost[1] - which));
    r->ended = which;
    return (struct membership_act){.what = MEMBERS_END, .slot = which};
}

struct membership_act reconnect_look(struct reconnect *r, const struct members *v, double now_s) {
    const struct membership now = own_membership_now(v->memory);
    const bool committed = own_membership_is_committed(v->memory, &now);
    const int before[2] = {r->lost[0], r->lost[1]};
    bool any = find_lost(r, v, &now, r->lost);
    if (!any || r->lost[0] != before[0] || r->lost[1] != before[1]) r->since_s = now_s;
    if (!any || now_s < r->since_s + moment_s) return (struct membership_act){.what = MEMBERS_STAY};
    if (now.number == r->epoch && !committed) return end_the_greater(r, &now);
    struct membership_act act = {MEMBERS_CHANGE, -1, now};
    act.next.number++;
    act.next.from = membership_from(&now, committed);
    return act;
}

void reconnect_is_open(struct reconnect *r, const struct membership *now, const struct membership_act *act) {
    fprintf(stderr, "trivium: ranks %d and %d have lost each other; epoch %d goes on with %d ranks\n",
            membership_place(now, r->lost[0]), membership_place(now, r->lost[1]), act->next.number, act->next.n);
    r->epoch = act->next.number;
}
