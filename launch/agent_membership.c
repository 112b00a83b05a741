/* The members of an elastic job on one host.
 *
 * The agent opens an epoch for three reasons. A signal has killed a member; or two live members have lost their
 * connection; or a better epoch is possible at the edge of a step (planned.c), because spares fill a replica or a
 * member leaves. membership_after, reconnect_look and next_membership choose the members from the state of the job; the
 * lighthouse of several hosts calls the same functions. This file collects their arguments and prints their results. */
#include "launch/agent_job.h"
#include "launch/next_membership.h"

#include "lib/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- after a death ---- */
/* there: storage of n_slots for the result's `there` */
static struct members view_of(struct agent *a, bool *there) {
    for (int s = 0; s < a->job.n_slots; s++) there[s] = a->pid[s] != 0;
    return (struct members){a->memory, a->job.n_slots, a->n_at_first, a->least, members_shape(a->memory, a->n), there,
                            a->told, a->left};
}

/* @return whether epoch `next` is open; if not, the last epoch is closed, or no room in the memory ends the job */
static bool open_membership(struct agent *a, const struct membership *next) {
    bool opened;
    if (own_membership_open(a->memory, &a->job, next, &opened) == OK) return opened;
    status_report();
    if (a->code == 0) a->code = 1;
    agent_end_all(a);
    return false;
}

static void say_too_few(const struct agent *a, const struct membership *now, const struct membership *next) {
    int n_left = 0;
    for (int i = 0; i < now->n; i++) n_left += a->pid[now->slot[i]] != 0;
    fprintf(stderr, "trivium: " TOO_FEW "\n", n_left, next->n, a->least);
}

/* Open an epoch of the live ranks. @return whether enough ranks are left, and the memory has room for the epoch */
bool agent_go_on(struct agent *a, int slot, int status) {
    const struct membership now = own_membership_now(a->memory);
    bool there[OWN_MOST_RANKS], alive[OWN_MOST_RANKS];
    bool finished = agent_any_has_finished(a), committed = own_membership_is_committed(a->memory, &now);
    int place = membership_place(&now, slot);
    const struct members view = view_of(a, there);
    members_alive(&view, &now, committed, alive);
    const struct membership next = membership_after(&now, committed, alive, a->job.n_slots, &view.shape);
    if (place >= 0 && !finished && (next.n == 0 || next.n < a->least)) return say_too_few(a, &now, &next), false;
    const bool opened = place >= 0 && !finished && open_membership(a, &next);
    if (a->ending_s > 0) return false;
    if (WIFSIGNALED(status))
        fprintf(stderr, "trivium: signal %d (%s) has killed %s %d", WTERMSIG(status), strsignal(WTERMSIG(status)),
                place < 0 ? "spare" : "rank", place < 0 ? slot : place);
    else fprintf(stderr, "trivium: process %d has withdrawn", slot);
    if (!opened) {
        fprintf(stderr, "; nothing is lost\n");
        return true;
    }
    fprintf(stderr, "; epoch %d goes on with %d ranks\n", next.number, next.n);
    chaos_died(&a->chaos.costs, clock_s());
    return true;
}

/* ---- lost connections ---- */
void agent_look_who_is_lost(struct agent *a) {
    bool there[OWN_MOST_RANKS];
    if (!a->least || a->ending_s > 0 || agent_any_has_finished(a)) return;
    const struct members view = view_of(a, there);
    const struct membership now = own_membership_now(a->memory);
    const struct membership_act act = reconnect_look(&a->reconnect, &view, clock_s());
    if (act.what == MEMBERS_END) kill(a->pid[act.slot], SIGKILL);
    if (act.what != MEMBERS_CHANGE || !open_membership(a, &act.next)) return;
    reconnect_is_open(&a->reconnect, &now, &act);
    chaos_died(&a->chaos.costs, clock_s());
}

/* ---- planned epochs ---- */
void agent_look_ahead(struct agent *a) {
    bool there[OWN_MOST_RANKS];
    if (!a->least || a->ending_s > 0 || agent_any_has_finished(a)) return;
    const struct members view = view_of(a, there);
    const struct membership now = own_membership_now(a->memory);
    const struct membership_act act = next_membership(&view, a->chaos.goes_on_s);
    if (act.what == MEMBERS_END) kill(a->pid[act.slot], SIGKILL);
    if (act.what == MEMBERS_CHANGE && open_membership(a, &act.next)) next_membership_is_open(&view, &now, &act);
}

/* ---- chaos ---- */
static void hurt(void *of, int s, int number) {
    struct agent *a = of;
    kill(a->pid[s], number);
}
static void cut(void *of, int s, int other) {
    struct agent *a = of;
    atomic_store(&a->memory->line[s].cut, own_slot_word(own_membership_now(a->memory).number, other));
}

void agent_wreak_chaos(struct agent *a) {
    bool there[OWN_MOST_RANKS];
    int node[OWN_MOST_RANKS];
    for (int s = 0; s < a->job.n_slots; s++) node[s] = own_node(&a->job, s);
    const struct members view = view_of(a, there);
    const struct wreak_hand hand = {a, hurt, cut, node};
    if (a->ending_s == 0) wreak_chaos(&a->chaos, &view, agent_any_has_finished(a), &hand, clock_s());
}
