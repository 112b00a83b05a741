/* A postmortem in words. */
#include "lib/comm/flight/postmortem.h"

#include "lib/base/say.h"
#include "lib/comm/comm.h"

const char *postmortem_kind_name(enum postmortem_kind kind) {
    static const char *const names[] = {"none", "mismatch", "missing", "circle", "stuck"};
    return names[kind];
}

/* A call as text: "all_reduce (max) of 100 fp32", "send of 7 fp32 to rank 3 with tag 1" */
static void say_call(struct line *line, const struct flight_row *row) {
    static const char *const reductions[] = {"", " (max)", " (min)"};
    bool reduces = row->op == COMM_ALL_REDUCE || row->op == COMM_REDUCE || row->op == COMM_REDUCE_SCATTER;
    say(line, "%s%s", comm_op_name((enum comm_op)row->op), reduces ? reductions[row->reduction] : "");
    if (row->op == COMM_BARRIER) return;
    say(line, " of %lld %s", (long long)row->count, dtype_name((enum dtype)row->dtype));
    if (row->op == COMM_SEND) say(line, " to rank %d with tag %d", row->peer, row->tag);
    else if (row->op == COMM_RECV) say(line, " from rank %d with tag %d", row->peer, row->tag);
    else if (row->peer >= 0) say(line, " with root %d", row->peer);
}

/* A call with its number and group as text: "barrier, #12 of dp (4 ranks), step 7"; ", " is `between` */
static void say_numbered(struct line *line, const struct flight_set *set, int rank, const struct flight_row *row,
                         const char *between) {
    say_call(line, row);
    say(line, "%s", between);
    const struct flight_group *group = flight_group_find(set->ring[rank], row->group);
    say(line, "#%lld of ", (long long)row->sequence);
    if (group) say(line, "%s (%d ranks)", group->name, group->size);
    else say(line, "a group that is gone");
    if (row->step > 0) say(line, ", step %d", row->step);
}

static void say_hops(struct line *line, const struct flight_row *row) {
    if (row->hops && row->state != FLIGHT_DONE) say(line, ", at hop %d of %d", row->hop, row->hops);
}

static void say_last(struct line *line, const struct flight_set *set, int rank, const struct postmortem_rank *r) {
    static const char *const states[] = {"", "called", "under way", "queued", "done"};
    if (!r->last) {
        say(line, "has called nothing");
        return;
    }
    say(line, "called last ");
    say_numbered(line, set, rank, r->last, ", ");
    say(line, " (%s)", states[r->last->state]);
}

static void say_waiting(struct line *line, const struct flight_set *set, const struct postmortem *p, int rank) {
    const struct postmortem_rank *r = &p->of[rank];
    say(line, "waits in ");
    say_numbered(line, set, rank, r->waits, ", ");
    say_hops(line, r->waits);
    say(line, ", for %.1f s", r->waited_s);
    if (r->waits_for >= 0) say(line, ", for rank %d", r->waits_for);
}

void postmortem_rank_text(const struct flight_set *set, const struct postmortem *p, int rank, char *text,
                          size_t bytes) {
    struct line line = {text, bytes, 0};
    *text = 0;
    if (!set->ring[rank]) {
        say(&line, "no record: on another host, or removed");
        return;
    }
    if (p->of[rank].waits) say_waiting(&line, set, p, rank);
    else say_last(&line, set, rank, &p->of[rank]);
    if (p->of[rank].behind) say(&line, "; %lld behind", (long long)p->of[rank].behind);
    if (p->of[rank].silent_s > 0.95) say(&line, "; last sign of life %.1f s ago", p->of[rank].silent_s);
    if (flight_dropped(set->ring[rank])) say(&line, "; %lld rows dropped", (long long)flight_dropped(set->ring[rank]));
}

static void say_mismatch(struct line *line, const struct flight_set *set, const struct postmortem *p) {
    say(line, "rank %d calls ", p->rank);
    say_numbered(line, set, p->rank, p->row, " as ");
    say(line, ", where rank %d calls ", p->other);
    say_call(line, p->other_row);
    if (p->mismatch == MISMATCH_SWAPPED) say(line, ": they are swapped with the next");
    if (p->mismatch == MISMATCH_LEFT_OUT) say(line, ", and that next: rank %d left one out", p->rank);
    if (p->mismatch == MISMATCH_ONE_MORE) say(line, ", and that next: rank %d calls one more", p->rank);
}

/* The sentence about a member that has not called a collective, or is stuck in it. */
static void say_blamed(struct line *line, const struct flight_set *set, const struct postmortem *p) {
    if (p->rank < 0) {
        say(line, "all have called it, and it does not end: rank %d ", p->other);
        say_waiting(line, set, p, p->other);
        return;
    }
    say(line, flight_is_message(p->other_row) ? "rank %d is waited for in "
              : p->row ? "rank %d gets no further in " : "rank %d has not called ", p->rank);
    say_numbered(line, set, p->other, p->other_row, ", ");
    if (p->row) say_hops(line, p->row);
    if (p->n_waiting)
        say(line, ", in which %d rank%s waited for %.1f s", p->n_waiting, p->n_waiting == 1 ? " has" : "s have",
            p->waited_s);
    if (p->behind) say(line, "; it is %lld behind", (long long)p->behind);
    if (p->of[p->rank].silent_s > 0.95) say(line, "; last sign of life %.1f s ago", p->of[p->rank].silent_s);
    if (p->row) return;
    say(line, "; it ");
    if (p->of[p->rank].waits) say_waiting(line, set, p, p->rank);
    else say_last(line, set, p->rank, &p->of[p->rank]);
}

/* What the steps and calls of the ranks in a circle show of its cause. */
static const char *circle_cause(const struct postmortem *p) {
    bool message = false, steps_differ = false;
    for (int r = p->rank, n = 0; n == 0 || r != p->rank; n++, r = p->of[r].waits_for) {
        message |= flight_is_message(p->of[r].waits);
        steps_differ |= p->of[r].waits->step != p->other_row->step;
    }
    return steps_differ ? "in different steps, so one has left its step early"
         : message ? "with a message in it, so a send or a receive is missing, or late"
                   : "in one step, so their order differs, or a call is left out";
}

void postmortem_text(const struct flight_set *set, const struct postmortem *p, char *text, size_t bytes) {
    struct line line = {text, bytes, 0};
    *text = 0;
    switch (p->kind) {
    case POSTMORTEM_NONE: say(&line, "no rank waits for another"); break;
    case POSTMORTEM_MISMATCH: say_mismatch(&line, set, p); break;
    case POSTMORTEM_CIRCLE:
        say(&line, "ranks wait for each other in a circle %s: rank %d ", circle_cause(p), p->rank);
        say_waiting(&line, set, p, p->rank);
        say(&line, "; rank %d ", p->other);
        say_waiting(&line, set, p, p->other);
        break;
    default: say_blamed(&line, set, p);
    }
    if (p->n_unknown) say(&line, "; %d of %d ranks have no record here", p->n_unknown, set->size);
}
