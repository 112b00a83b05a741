/* --chaos: what chaos_act draws is done to ranks of this host. */
#include "driver/launch/agent_job.h"

#include "lib/base/clock.h"

#include <math.h>

static void go_on_with_slowed(struct agent *a, double now_s) {
    for (int s = 0; s < a->job.n_slots; s++) {
        if (a->goes_on_s[s] == 0 || now_s < a->goes_on_s[s]) continue;
        if (a->pid[s]) kill(a->pid[s], SIGCONT);
        a->goes_on_s[s] = 0;
    }
}

/* Who is stopped already, or has ended, is no victim. */
static void act(struct agent *a, double now_s) {
    static const int signals[] = {[CHAOS_KILL] = SIGKILL, [CHAOS_STOP] = SIGSTOP, [CHAOS_SLOW] = SIGSTOP};
    bool alive[OWN_MOST_RANKS];
    for (int s = 0; s < a->job.n_slots; s++) alive[s] = agent_should_move(a, s) && a->goes_on_s[s] == 0;
    const struct epoch now = own_epoch_now(a->memory);
    int node[OWN_MOST_RANKS];
    for (int s = 0; s < a->job.n_slots; s++) node[s] = own_node(&a->job, s);
    bool may_cut = a->costs.last_epoch == now.number && a->costs.in_epoch >= CHAOS_STEPS_BEFORE_A_CUT;
    const struct chaos_job job = {now, own_epoch_is_whole(a->memory, &now), alive, a->job.n_slots, a->least,
                                  agent_shape(a), may_cut ? node : NULL};
    const struct chaos_act x = chaos_act(a->chaos, a->n_acts++, a->chaos_s, a->hang_s, &job);
    a->act_s = now_s + x.seconds;
    if (x.kind == CHAOS_CUT) {
        atomic_store(&a->memory->line[x.slot[0]].cut, 1 + x.slot[1]);
        a->costs.acts[CHAOS_CUT]++;
        return;
    }
    for (int i = 0; i < x.n; i++) {
        kill(a->pid[x.slot[i]], signals[x.kind]);
        a->costs.acts[x.kind]++;
        if (x.kind == CHAOS_SLOW) a->goes_on_s[x.slot[i]] = now_s + x.slow_s;
        if (x.kind == CHAOS_STOP) a->goes_on_s[x.slot[i]] = INFINITY;
    }
}

void agent_wreak_chaos(struct agent *a) {
    double now_s = clock_s();
    int64_t done = atomic_load(&a->memory->done);
    if (!a->chaos || a->ending_s > 0) return;
    chaos_look(&a->costs, own_done_epoch(done), own_done_step(done), now_s);
    go_on_with_slowed(a, now_s);
    if (a->costs.from_s == 0 || agent_any_has_finished(a)) return;
    if (a->act_s == 0) a->act_s = now_s + a->chaos_s;
    else if (now_s >= a->act_s) act(a, now_s);
}
