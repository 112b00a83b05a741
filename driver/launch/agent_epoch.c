/* Who goes on, in an elastic job on one host.
 *
 * An epoch is opened for three reasons: a signal has killed a member; two that live have lost their connection; or a
 * better one can be had at an edge of a step (planned.c): a spare that makes more replicas, or a member that leaves.
 * Who is in it is decided by pure functions (epoch_after, planned_epoch); here is what they ask, and what is said. */
#include "driver/launch/agent_job.h"
#include "driver/launch/plan_ahead.h"

#include "lib/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- the others go on ---- */
struct epoch_shape agent_shape(const struct agent *a) {
    struct epoch_shape shape = a->memory->shape.n_inner ? a->memory->shape : (struct epoch_shape){1, 1, 0, 0, 0, {0}};
    shape.most = a->n;
    return shape;
}

/* there: room for it */
static struct plan_view view_of(struct agent *a, bool *there) {
    for (int s = 0; s < a->job.n_slots; s++) there[s] = a->pid[s] != 0;
    return (struct plan_view){a->memory, a->job.n_slots, a->n_at_first, a->least, agent_shape(a), there, a->told,
                              a->left};
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
    bool there[OWN_MOST_RANKS], alive[OWN_MOST_RANKS];
    bool finished = agent_any_has_finished(a), whole = own_epoch_is_whole(a->memory, &now);
    int place = epoch_place(&now, slot);
    const struct plan_view view = view_of(a, there);
    plan_alive(&view, &now, whole, alive);
    const struct epoch next = epoch_after(&now, whole, alive, a->job.n_slots, &view.shape);
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
void agent_plan_ahead(struct agent *a) {
    bool there[OWN_MOST_RANKS], slowed[OWN_MOST_RANKS];
    if (!a->least || a->ending_s > 0 || agent_any_has_finished(a)) return;
    for (int s = 0; s < a->job.n_slots; s++) slowed[s] = a->goes_on_s[s] != 0;
    const struct plan_view view = view_of(a, there);
    const struct epoch now = own_epoch_now(a->memory);
    const struct plan_act act = plan_ahead(&view, slowed);
    if (act.what == PLAN_END) kill(a->pid[act.slot], SIGKILL);
    if (act.what == PLAN_OPEN && open_epoch(a, &act.next)) plan_is_open(&view, &now, &act);
}
