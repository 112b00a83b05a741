#include "launch/chaos_wreak.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

static void go_on_with_slowed(struct wreak *w, const struct members *v, const struct wreak_hand *hand, double now_s) {
    for (int s = 0; s < v->n_slots; s++) {
        if (w->goes_on_s[s] == 0 || now_s < w->goes_on_s[s]) continue;
        if (v->there[s]) hand->signal(hand->of, s, SIGCONT);
        w->goes_on_s[s] = 0;
        w->rests_s[s] = now_s + fmin(w->hang_s, 2);
    }
}

static void do_it(struct wreak *w, const struct chaos_act *x, const struct wreak_hand *hand, double now_s) {
    static const int signals[] = {[CHAOS_KILL] = SIGKILL, [CHAOS_STOP] = SIGSTOP, [CHAOS_SLOW] = SIGSTOP};
    static const char *const texts[] = {[CHAOS_KILL] = "killed", [CHAOS_STOP] = "stopped", [CHAOS_SLOW] = "slowed"};
    if (x->kind == CHAOS_CUT) {
        fprintf(stderr, "trivium: chaos: process %d is cut off process %d\n", x->slot[0], x->slot[1]);
        hand->cut(hand->of, x->slot[0], x->slot[1]);
        w->costs.acts[CHAOS_CUT]++;
        return;
    }
    for (int i = 0; i < x->n; i++) {
        if (x->kind == CHAOS_SLOW && now_s < w->rests_s[x->slot[i]]) continue;
        fprintf(stderr, "trivium: chaos: process %d is %s\n", x->slot[i], texts[x->kind]);
        hand->signal(hand->of, x->slot[i], signals[x->kind]);
        w->costs.acts[x->kind]++;
        w->goes_on_s[x->slot[i]] = x->kind == CHAOS_SLOW ? now_s + x->slow_s : INFINITY;
    }
}

/* Draw the next act and carry it out. A stopped rank cannot be a victim, and does not count as alive. */
static void act(struct wreak *w, const struct members *v, const struct wreak_hand *hand, double now_s) {
    bool alive[OWN_MOST_RANKS];
    const struct membership now = own_membership_now(v->memory);
    for (int s = 0; s < v->n_slots; s++)
        alive[s] = v->there[s] && atomic_load(&v->memory->line[s].state) == OWN_RUNNING && w->goes_on_s[s] == 0;
    bool may_cut = w->costs.last_epoch == now.number && w->costs.in_epoch >= CHAOS_STEPS_BEFORE_A_CUT;
    const struct chaos_job job = {now, own_membership_is_committed(v->memory, &now), alive, v->n_slots, v->least,
                                  v->shape, may_cut ? hand->node : NULL};
    const struct chaos_act x = chaos_act(w->seed, w->n_acts++, w->mean_s, w->hang_s, &job);
    w->act_s = now_s + x.seconds;
    do_it(w, &x, hand, now_s);
}

void wreak_chaos(struct wreak *w, const struct members *v, bool all_is_done, const struct wreak_hand *hand,
                 double now_s) {
    int64_t done = atomic_load(&v->memory->done);
    if (!w->seed) return;
    chaos_look(&w->costs, own_done_epoch(done), own_done_step(done), now_s);
    go_on_with_slowed(w, v, hand, now_s);
    if (w->costs.from_s == 0 || all_is_done) return;
    if (w->act_s == 0) w->act_s = now_s + w->mean_s;
    else if (now_s >= w->act_s) act(w, v, hand, now_s);
}
