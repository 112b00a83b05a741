#include "launch/next_membership.h"

#include "lib/comm/membership/planned.h"

#include <stdio.h>

static bool runs(const struct plan_view *v, int s) {
    return v->there[s] && atomic_load(&v->memory->line[s].state) == OWN_RUNNING;
}

struct epoch_shape plan_shape(const struct own_memory *m, int n) {
    struct epoch_shape shape = m->shape.n_inner ? m->shape : (struct epoch_shape){.n_inner = n, .n_outer = 1};
    shape.most = n;
    return shape;
}

void plan_alive(const struct plan_view *v, const struct epoch *now, bool whole, bool *alive) {
    for (int s = 0; s < v->n_slots; s++) {
        bool spare = epoch_place(now, s) < 0;
        bool has_left = spare && whole && v->memory->line[s].wish == EPOCH_LEAVES;
        bool is_starting = spare && s >= v->n_at_first && v->memory->line[s].state == OWN_STARTING;
        alive[s] = v->there[s] && !has_left && !is_starting;
    }
}

bool plan_should_move(const struct own_memory *m, int s) {
    const struct epoch now = own_epoch_now(m);
    int state = atomic_load(&m->line[s].state);
    return state == OWN_RUNNING || (state == OWN_STARTING && now.number > 0 && epoch_place(&now, s) >= 0);
}

/* A slot outside the epoch that wished to leave. Its state is on other ranks, because the epoch is whole. -1: none. */
static int who_has_left(const struct plan_view *v, const struct epoch *now) {
    for (int s = 0; s < v->n_slots; s++)
        if (v->there[s] && !v->left[s] && epoch_place(now, s) < 0 && v->memory->line[s].wish == EPOCH_LEAVES) return s;
    return -1;
}

static void tell_who_cannot_leave(const struct plan_view *v, const struct epoch *now, int slot) {
    if (slot < 0 || v->told[slot]) return;
    v->told[slot] = true;
    fprintf(stderr, "trivium: rank %d was asked to leave, and stays until there is a spare for it: without one fewer "
            "ranks than --elastic %d could go on, or a shard would go with it\n", epoch_place(now, slot), v->least);
}

struct plan_act plan_ahead(const struct plan_view *v, const double *goes_on_s) {
    bool ready[OWN_MOST_RANKS];
    int wish[OWN_MOST_RANKS];
    const struct planned_job job = {own_epoch_now(v->memory), ready, v->there, wish, v->n_slots, v->least, v->shape};
    if (!own_epoch_is_whole(v->memory, &job.now)) return (struct plan_act){.what = PLAN_NOTHING};
    int gone = who_has_left(v, &job.now);
    if (gone >= 0) {
        v->left[gone] = true;
        return (struct plan_act){.what = PLAN_END, .slot = gone};
    }
    for (int s = 0; s < v->n_slots; s++) {
        wish[s] = atomic_load(&v->memory->line[s].wish);
        ready[s] = runs(v, s) && wish[s] == EPOCH_STAYS && goes_on_s[s] == 0;
    }
    const struct planned plan = planned_epoch(&job);
    tell_who_cannot_leave(v, &job.now, plan.cannot);
    if (v->memory->ends == job.now.number && own_epoch_rests(v->memory, &job.now))
        return (struct plan_act){PLAN_OPEN, plan.leaves, plan.next.n ? plan.next : planned_anyway(&job)};
    bool asks = plan.next.n && v->memory->ends != job.now.number;
    if (asks) v->memory->ends = job.now.number;
    return (struct plan_act){.what = asks ? PLAN_ASK : PLAN_NOTHING};
}

void plan_is_open(const struct plan_view *v, const struct epoch *now, const struct plan_act *act) {
    if (act->slot < 0) {
        fprintf(stderr, "trivium: there are spares for more; epoch %d goes on with %d ranks\n", act->next.number,
                act->next.n);
        return;
    }
    fprintf(stderr, "trivium: rank %d leaves; epoch %d goes on with %d ranks\n", epoch_place(now, act->slot),
            act->next.number, act->next.n);
    atomic_store(&v->memory->line[act->slot].wish, EPOCH_LEAVES);                  /* also a relieved rank */
}
