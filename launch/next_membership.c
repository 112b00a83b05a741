#include "launch/next_membership.h"

#include "lib/comm/membership/planned.h"

#include <stdio.h>

static bool runs(const struct members *v, int s) {
    return v->there[s] && atomic_load(&v->memory->line[s].state) == OWN_RUNNING;
}

struct membership_shape members_shape(const struct own_memory *m, int n) {
    struct membership_shape shape = m->shape.n_inner ? m->shape : (struct membership_shape){.n_inner = n, .n_outer = 1};
    shape.most = n;
    return shape;
}

void members_alive(const struct members *v, const struct membership *now, bool committed, bool *alive) {
    for (int s = 0; s < v->n_slots; s++) {
        bool spare = membership_place(now, s) < 0;
        bool has_left = spare && committed && v->memory->line[s].request == MEMBER_LEAVES;
        bool is_starting = spare && s >= v->n_at_first && v->memory->line[s].state == OWN_STARTING;
        alive[s] = v->there[s] && !has_left && !is_starting;
    }
}

bool member_should_move(const struct own_memory *m, int s) {
    const struct membership now = own_membership_now(m);
    int state = atomic_load(&m->line[s].state);
    return state == OWN_RUNNING || (state == OWN_STARTING && now.number > 0 && membership_place(&now, s) >= 0);
}

/* A process that asked to leave and has no place in the epoch, whose state others have; -1: none. */
static int who_has_left(const struct members *v, const struct membership *now) {
    for (int s = 0; s < v->n_slots; s++)
        if (v->there[s] && !v->left[s] && membership_place(now, s) < 0 &&
            v->memory->line[s].request == MEMBER_LEAVES)
            return s;
    return -1;
}

static void tell_who_cannot_leave(const struct members *v, const struct membership *now, int slot) {
    if (slot < 0 || v->told[slot]) return;
    v->told[slot] = true;
    fprintf(stderr, "trivium: rank %d was asked to leave, and stays until there is a spare for it: without one fewer "
            "ranks than --elastic %d could go on, or a shard would go with it\n", membership_place(now, slot),
            v->least);
}

struct membership_act next_membership(const struct members *v, const double *goes_on_s) {
    bool ready[OWN_MOST_RANKS];
    int request[OWN_MOST_RANKS];
    const struct planned_job job = {own_membership_now(v->memory), ready, v->there, request, v->n_slots, v->least,
                                    v->shape};
    if (!own_membership_is_committed(v->memory, &job.now)) return (struct membership_act){.what = MEMBERS_STAY};
    int gone = who_has_left(v, &job.now);
    if (gone >= 0) {
        v->left[gone] = true;
        return (struct membership_act){.what = MEMBERS_END, .slot = gone};
    }
    for (int s = 0; s < v->n_slots; s++) {
        request[s] = atomic_load(&v->memory->line[s].request);
        ready[s] = runs(v, s) && request[s] == MEMBER_STAYS && goes_on_s[s] == 0;
    }
    const struct planned plan = planned_membership(&job);
    tell_who_cannot_leave(v, &job.now, plan.cannot);
    if (v->memory->ends == job.now.number && own_membership_is_drained(v->memory, &job.now))
        return (struct membership_act){MEMBERS_CHANGE, plan.leaves, plan.next.n ? plan.next : planned_anyway(&job)};
    bool asks = plan.next.n && v->memory->ends != job.now.number;
    if (asks) v->memory->ends = job.now.number;
    return (struct membership_act){.what = asks ? MEMBERS_DRAIN : MEMBERS_STAY};
}

void next_membership_is_open(const struct members *v, const struct membership *now, const struct membership_act *act) {
    if (act->slot < 0) {
        fprintf(stderr, "trivium: there are spares for more; epoch %d goes on with %d ranks\n", act->next.number,
                act->next.n);
        return;
    }
    fprintf(stderr, "trivium: rank %d leaves; epoch %d goes on with %d ranks\n", membership_place(now, act->slot),
            act->next.number, act->next.n);
    atomic_store(&v->memory->line[act->slot].request, MEMBER_LEAVES);          /* even if it asked only for relief */
}
