/* Who goes on, in an elastic job on one host.
 *
 * An epoch is opened for three reasons: a signal has killed a member; two that live have lost their connection; or a
 * better one can be had at an edge of a step (planned.c): a spare that makes more replicas, or a member that leaves.
 * Who is in it is decided by pure functions (epoch_after, planned_epoch); here is what they ask, and what is said. */
#include "driver/launch/agent_job.h"

#include "lib/base/clock.h"
#include "lib/comm/own/planned.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- the others go on ---- */
struct epoch_shape agent_shape(const struct agent *a) {
    struct epoch_shape shape = a->memory->shape.n_inner ? a->memory->shape : (struct epoch_shape){1, 1, 0, 0, 0, {0}};
    shape.most = a->n;
    return shape;
}

/* Who lives, and is of use: not one that is a spare because it has left, once what it had is elsewhere; nor one that
 * was started later and is not there yet. */
static void find_alive(const struct agent *a, const struct epoch *now, bool whole, bool *alive) {
    for (int s = 0; s < a->job.n_slots; s++) {
        bool spare = epoch_place(now, s) < 0;
        bool has_left = spare && whole && a->memory->line[s].wish == EPOCH_LEAVES;
        bool is_starting = spare && s >= a->n_at_first && a->memory->line[s].state == OWN_STARTING;
        alive[s] = a->pid[s] && !has_left && !is_starting;
    }
}

/* @return whether it is open: not if the job is closed; nor if there is no room for it, and then the job ends */
static bool open_epoch(struct agent *a, const struct epoch *next) {
    bool opened;
    if (own_epoch_open(a->memory, &a->job, next, &opened) == OK) return opened;
    status_report();
    if (a->code == 0) a->code = 1;
    agent_end_all(a);
    return false;
}

/* Open an epoch of those that are left. @return whether they are enough, and there is room for it */
bool agent_go_on(struct agent *a, int slot, int status) {
    const struct epoch now = own_epoch_now(a->memory);
    bool alive[OWN_MOST_RANKS], finished = agent_any_has_finished(a), whole = own_epoch_is_whole(a->memory, &now);
    int place = epoch_place(&now, slot);
    find_alive(a, &now, whole, alive);
    const struct epoch_shape shape = agent_shape(a);
    const struct epoch next = epoch_after(&now, whole, alive, a->job.n_slots, &shape);
    if (place >= 0 && !finished && (next.n == 0 || next.n < a->least)) return false;
    const bool opened = place >= 0 && !finished && open_epoch(a, &next);
    if (a->ending_s > 0) return false;
    fprintf(stderr, "trivium: signal %d (%s) has killed %s %d", WTERMSIG(status), strsignal(WTERMSIG(status)),
            place < 0 ? "spare" : "rank", place < 0 ? slot : place);
    if (!opened) {
        fprintf(stderr, "; nothing is lost\n");
        return true;
    }
    fprintf(stderr, "; epoch %d goes on with %d ranks\n", next.number, next.n);
    chaos_died(&a->costs, clock_s());
    return true;
}

/* ---- two that have lost each other ---- */
/* The first that says so, and whom. */
static bool find_lost(const struct agent *a, const struct epoch *now, int lost[2]) {
    for (int i = 0; i < now->n; i++) {
        lost[0] = now->slot[i];
        lost[1] = own_lost_slot(atomic_load(&a->memory->line[lost[0]].lost), now->number);
        if (lost[1] >= 0 && epoch_place(now, lost[1]) >= 0 && a->pid[lost[0]] && a->pid[lost[1]]) return true;
    }
    return false;
}

/* Both live, still at the second look: a rank's connections end a moment before it is seen to be dead. An epoch of the
 * same ranks makes all connections again. If it cannot, one of the two is on the wrong side of the network. */
void agent_look_who_is_lost(struct agent *a) {
    const struct epoch now = own_epoch_now(a->memory);
    const bool whole = own_epoch_is_whole(a->memory, &now);
    int lost[2], before[2] = {a->lost[0], a->lost[1]};
    a->lost[0] = a->lost[1] = -1;
    if (!a->least || a->ending_s > 0 || agent_any_has_finished(a) || !find_lost(a, &now, lost)) return;
    a->lost[0] = lost[0], a->lost[1] = lost[1];
    if (before[0] != lost[0] || before[1] != lost[1]) return;
    if (now.number == a->for_lost && !whole) {
        int which = lost[0] > lost[1] ? lost[0] : lost[1];
        fprintf(stderr, "trivium: rank %d cannot be reached by rank %d, and is killed\n", epoch_place(&now, which),
                epoch_place(&now, lost[0] + lost[1] - which));
        kill(a->pid[which], SIGKILL);
        return;
    }
    struct epoch next = now;
    next.number++;
    next.from = epoch_from(&now, whole);
    if (!open_epoch(a, &next)) return;
    fprintf(stderr, "trivium: ranks %d and %d have lost each other; epoch %d goes on with %d ranks\n",
            epoch_place(&now, lost[0]), epoch_place(&now, lost[1]), next.number, next.n);
    a->for_lost = next.number;
    chaos_died(&a->costs, clock_s());
}

/* ---- epochs that are planned ---- */
/* Their state is elsewhere: the new epoch is whole. */
static void end_who_has_left(struct agent *a, const struct epoch *now) {
    for (int s = 0; s < a->job.n_slots; s++) {
        if (!a->pid[s] || a->left[s] || epoch_place(now, s) >= 0 || a->memory->line[s].wish != EPOCH_LEAVES) continue;
        a->left[s] = true;
        kill(a->pid[s], SIGKILL);
    }
}

static void open_planned(struct agent *a, const struct planned_job *job, const struct planned *plan) {
    const struct epoch next = plan->next.n ? plan->next : planned_anyway(job);
    if (!open_epoch(a, &next)) return;
    if (plan->leaves >= 0) {
        fprintf(stderr, "trivium: rank %d leaves; epoch %d goes on with %d ranks\n",
                epoch_place(&job->now, plan->leaves), next.number, next.n);
        atomic_store(&a->memory->line[plan->leaves].wish, EPOCH_LEAVES);       /* one that was relieved does, too */
    } else {
        fprintf(stderr, "trivium: there are spares for more; epoch %d goes on with %d ranks\n", next.number, next.n);
    }
}

static void tell_who_cannot_leave(struct agent *a, const struct planned_job *job, int slot) {
    if (slot < 0 || a->told[slot]) return;
    a->told[slot] = true;
    fprintf(stderr, "trivium: rank %d was asked to leave, and stays until there is a spare for it: --elastic wants %d "
            "ranks\n", epoch_place(&job->now, slot), a->least);
}

/* Ask for the end of this epoch, if there is a better one; open the next when all members rest. */
void agent_plan_ahead(struct agent *a) {
    bool ready[OWN_MOST_RANKS], alive[OWN_MOST_RANKS];
    int wish[OWN_MOST_RANKS];
    struct planned_job job = {own_epoch_now(a->memory), ready, alive, wish, a->job.n_slots, a->least, agent_shape(a)};
    if (!a->least || a->ending_s > 0 || agent_any_has_finished(a) || !own_epoch_is_whole(a->memory, &job.now)) return;
    end_who_has_left(a, &job.now);
    for (int s = 0; s < a->job.n_slots; s++) {
        wish[s] = atomic_load(&a->memory->line[s].wish);
        alive[s] = a->pid[s] != 0;
        ready[s] = agent_should_move(a, s) && wish[s] == EPOCH_STAYS && a->goes_on_s[s] == 0;
    }
    const struct planned plan = planned_epoch(&job);
    tell_who_cannot_leave(a, &job, plan.cannot);
    if (a->memory->ends == job.now.number && own_epoch_rests(a->memory, &job.now)) open_planned(a, &job, &plan);
    else if (plan.next.n) a->memory->ends = job.now.number;
}
