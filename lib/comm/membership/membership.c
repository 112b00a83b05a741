/* Epochs.
 *
 * Idea. Each rank keeps two snapshots, of the last step and of the step before it. A snapshot has its own shard of the
 * states and a copy of its left neighbor's. When a rank dies, nothing is lost, because its right neighbor has its
 * shard. So the survivors agree on a step, give the shards to the members of the next epoch, and continue from this
 * step. An *epoch* is the time from death to death, with an ordered list of processes. The lighthouse, which sees the
 * deaths, opens it.
 *
 *          opened                all have reported          shard here             copy here
 *   RUN  ---------->  REPORT  ------------------->  MOVE  ---------------->  COPY  -------------->  RUN
 *                                  back = least             own snapshot            says "committed"
 *   RUN  ---------->  DRAINED    all members have agreed to end this epoch after this step
 *
 * From each of these states a newer epoch leads to REPORT again. No rank waits until the others are committed, because
 * the sums of the next step wait for all ranks, and no snapshot is overwritten before these sums are done.
 *
 * Formula. A rank may go back to the newest step of which it has its own shard *and* its neighbor's:
 *     newest(r) = max { s : own(r, s) and left(r, s) }          back = min over r of newest(r)
 * A rank joins the sums of step s + 1 only after its newest is s. So when these sums are done, every rank's newest is
 * at least s, and the snapshot of s + 1 may overwrite that of s - 1. The newest steps of two ranks differ by at most
 * one, and both ranks still have the older step.
 *
 * Stored where. A rank has room for two epochs with two steps each. An epoch is *committed* when every member has
 * committed. The snapshots of the last committed epoch are kept until the next one is committed, because all ranks go
 * back to them again if another rank dies before that. This rule chooses the snapshot to overwrite, without a message
 * (membership_store.c).
 *
 * Sent when. A copy to the right neighbor after every K-th step; shards when an epoch opens.
 *
 * Writers: the lighthouse writes each epoch, and then its number. Each rank writes its own newest step, and whether it
 * has committed. No two processes write the same word.
 *
 * What breaks: a snapshot that counts before its copy has come; the old epoch's snapshots overwritten before the new
 * one is committed; a late message of an old epoch used in the new one. test_membership.c tries every order of these
 * events for three ranks of which two die, with each of these mistakes and without.
 *
 * If two neighbors die at once, a shard is lost, and all ranks read the last checkpoint: state DISK. No other event
 * leads to it.
 *
 * Planned epochs. No rank has died, but with a spare there can be one more replica, or a rank must leave. The
 * lighthouse plans an epoch only when the present one is committed, and asks for its end. The members agree on a last
 * step, after which each has its shard and its copy. Then all members are drained, and the lighthouse opens the next
 * epoch, even if the reason for it is gone. So no step is repeated. A process that is started later gets a new number,
 * never that of a dead process, which would count as having snapshots. One rank leaves at a time, and none in an epoch
 * that opens after a death, because its neighbor may be the dead rank. It stays until the new epoch is committed.
 *
 * Only whole replicas can be left out, so the next epoch keeps the replicas with the fewest dead ranks, and other
 * living processes take the places of the dead ones (membership_after).
 *
 * Source: Wang et al. 2023, "Gemini: fast failure recovery in distributed training with in-memory checkpoints"; torchft
 * and TorchElastic for the lighthouse. */
#include "lib/comm/membership/membership.h"

#include <stddef.h>

const struct member_row member_rows[] = {
    {MEMBER_RUN, EVENT_MEMBER, MEMBER_REPORT, DO_REPORT, "drop what is in flight, say the newest step to go back to"},
    {MEMBER_REPORT, EVENT_MEMBER, MEMBER_REPORT, DO_REPORT, "another one has died: say it for the newer epoch"},
    {MEMBER_MOVE, EVENT_MEMBER, MEMBER_REPORT, DO_REPORT, "the same; what has moved so far does not count"},
    {MEMBER_COPY, EVENT_MEMBER, MEMBER_REPORT, DO_REPORT, "the same"},
    {MEMBER_DRAINED, EVENT_MEMBER, MEMBER_REPORT, DO_REPORT, "the epoch that was planned, or another one has died"},
    {MEMBER_SPARE, EVENT_MEMBER, MEMBER_REPORT, DO_REPORT, "a spare is needed; it has nothing to go back to"},
    {MEMBER_RUN, EVENT_NO_MEMBER, MEMBER_SPARE, DO_NOTHING, "its replica's other ranks are gone: it is a spare now"},
    {MEMBER_REPORT, EVENT_NO_MEMBER, MEMBER_SPARE, DO_NOTHING, "the same"},
    {MEMBER_MOVE, EVENT_NO_MEMBER, MEMBER_SPARE, DO_NOTHING, "the same"},
    {MEMBER_COPY, EVENT_NO_MEMBER, MEMBER_SPARE, DO_NOTHING, "the same"},
    {MEMBER_DRAINED, EVENT_NO_MEMBER, MEMBER_SPARE, DO_NOTHING, "it has left, or its replica has"},
    {MEMBER_SPARE, EVENT_NO_MEMBER, MEMBER_SPARE, DO_NOTHING, "still a spare"},
    {MEMBER_DISK, EVENT_MEMBER, MEMBER_REPORT, DO_REPORT, "it has nothing to go back to, or had not yet read it"},
    {MEMBER_DISK, EVENT_NO_MEMBER, MEMBER_SPARE, DO_NOTHING, "its replica's other ranks are gone"},
    {MEMBER_REPORT, EVENT_REPORTED, MEMBER_MOVE, DO_MOVE, "back is the least; send the shards that it holds"},
    {MEMBER_REPORT, EVENT_GONE, MEMBER_DISK, DO_READ_DISK, "two neighbors died together: the last checkpoint"},
    {MEMBER_MOVE, EVENT_MOVED, MEMBER_COPY, DO_KEEP, "snapshot of its shard next to the old ones; copy to the right"},
    {MEMBER_DISK, EVENT_MOVED, MEMBER_COPY, DO_KEEP, "the same of a checkpoint, or of where the job begins"},
    {MEMBER_COPY, EVENT_COPIED, MEMBER_RUN, DO_COMMIT, "it can be lost now without loss: go on after step back"},
    {MEMBER_RUN, EVENT_ASKED, MEMBER_DRAINED, DO_DRAIN, "nothing is in flight: the next epoch goes on from here"},
};
const int n_member_rows = sizeof member_rows / sizeof *member_rows;

const struct member_row *member_row(enum member_state state, enum member_event event) {
    for (int i = 0; i < n_member_rows; i++)
        if (member_rows[i].state == state && member_rows[i].event == event) return &member_rows[i];
    return NULL;
}

const char *member_state_name(enum member_state state) {
    static const char *const name[] = {"RUN", "REPORT", "MOVE", "COPY", "DRAINED", "SPARE", "DISK"};
    return (unsigned)state < N_MEMBER_STATES ? name[state] : "?";
}

/* ---- members ---- */
int membership_place(const struct membership *e, int slot) {
    for (int i = 0; i < e->n; i++)
        if (e->slot[i] == slot) return i;
    return -1;
}

/* The largest number of replicas, at most n, that n_alive ranks can form; 0: none. */
static int replicas_of(const struct membership_shape *shape, int n, int n_alive) {
    int64_t each = (int64_t)shape->n_inner * shape->n_outer;
    for (; n > 0; n--) {
        bool divides = shape->batch == 0 ||
                       (shape->batch % n == 0 && (shape->micro == 0 || shape->batch / n % shape->micro == 0));
        if (n * each <= n_alive && divides && !membership_refuses(shape, n)) return n;
    }
    return 0;
}

/* The place in an epoch of n replicas of rank k of a replica. */
static int place_in(const struct membership_shape *shape, int n, int replica, int k) {
    return k % shape->n_inner + shape->n_inner * (replica + n * (k / shape->n_inner));
}

static int replica_of(const struct membership_shape *shape, int n, int i) { return i / shape->n_inner % n; }

/* The ring of places along which place i is copied: the same place of all replicas, or all places if there is one
 * replica. Places of one host are adjacent. at: the index of place i. */
struct circle { int n, at, place[MEMBERSHIP_MOST_RANKS]; };

static void find_circle(const struct membership_shape *shape, const struct membership *e, int i, struct circle *c) {
    const int each = shape->n_inner * shape->n_outer, n = e->n / each, outer = i / shape->n_inner / n;
    c->n = n == 1 ? each : n;
    for (int k = 0; k < c->n; k++) {
        int at = k, p = n == 1 ? k : place_in(shape, n, k, i % shape->n_inner + shape->n_inner * outer);
        for (; at > 0 && e->host[c->place[at - 1]] > e->host[p]; at--) c->place[at] = c->place[at - 1];
        c->place[at] = p;
    }
    for (c->at = 0; c->place[c->at] != i;) c->at++;
}

/* The distance to both neighbors in the ring: the largest number of its places on one host. So every neighbor is on
 * another host, unless one host has more than half of the places; then as many as possible are. */
static int reach(const struct membership *e, const struct circle *c) {
    int most = 0;
    for (int k = 0, same = 0; k < c->n; k++) {
        same = k > 0 && e->host[c->place[k]] == e->host[c->place[k - 1]] ? same + 1 : 1;
        if (same > most) most = same;
    }
    return most < c->n ? most : 1;
}

int membership_right(const struct membership_shape *shape, const struct membership *e, int i) {
    struct circle c;
    find_circle(shape, e, i, &c);
    return c.place[(c.at + reach(e, &c)) % c.n];
}
int membership_left(const struct membership_shape *shape, const struct membership *e, int i) {
    struct circle c;
    find_circle(shape, e, i, &c);
    return c.place[(c.at + c.n - reach(e, &c) % c.n) % c.n];
}

/* The replica of `now` to leave out next: the one with the most dead ranks. Among equals, prefer one whose neighbors
 * both stay, since the right neighbor has the shards of dead ranks; then one at distance two from a replica already
 * left out, so that more such choices remain. */
static int next_left_out(const struct membership_shape *shape, const struct membership *now, const bool *alive, int n,
                         const bool *kept) {
    int best = -1, most = -1;
    for (int r = 0; r < n; r++) {
        int dead = 0;
        bool alone = true, second = false;
        for (int k = 0; k < shape->n_inner * shape->n_outer; k++) {
            int i = place_in(shape, n, r, k);
            int right = membership_right(shape, now, i), left = membership_left(shape, now, i);
            dead += !alive[now->slot[i]];
            alone &= kept[replica_of(shape, n, right)] && kept[replica_of(shape, n, left)];
            second |= !kept[replica_of(shape, n, membership_right(shape, now, right))];
            second |= !kept[replica_of(shape, n, membership_left(shape, now, left))];
        }
        int gain = 4 * dead + 2 * alone + second;
        if (kept[r] && gain >= most) best = r, most = gain;
    }
    return best;
}

/* The next living process without a place; the search begins at slot *spare. */
static int take_spare(const bool *alive, const bool *used, int *spare) {
    while (!alive[*spare] || used[*spare]) ++*spare;
    return (*spare)++;
}

struct membership membership_after(const struct membership *now, bool committed, const bool *alive, int n_slots,
                                   const struct membership_shape *shape) {
    struct membership next = {.number = now->number + 1, .from = membership_from(now, committed)};
    const int each = shape->n_inner * shape->n_outer, n_before = now->n / each;
    bool kept[MEMBERSHIP_MOST_RANKS], used[MEMBERSHIP_MOST_RANKS] = {false};
    int n_alive = 0, spare = 0, at = 0;
    for (int s = 0; s < n_slots; s++) n_alive += alive[s];
    const int n = replicas_of(shape, shape->most > now->n ? shape->most / each : n_before, n_alive);
    for (int r = 0; r < n_before; r++) kept[r] = true;
    for (int i = n; i < n_before; i++) kept[next_left_out(shape, now, alive, n_before, kept)] = false;
    next.n = n * each;
    for (int r = 0; r < n_before; r++)
        for (int k = 0; k < each && kept[r]; k++) used[now->slot[place_in(shape, n_before, r, k)]] = true;
    for (int r = 0; r < n_before; r++) {
        for (int k = 0; k < each && kept[r]; k++) {
            int slot = now->slot[place_in(shape, n_before, r, k)];
            next.slot[place_in(shape, n, at, k)] = alive[slot] ? slot : take_spare(alive, used, &spare);
        }
        at += kept[r];
    }
    for (; at < n; at++)
        for (int k = 0; k < each; k++) next.slot[place_in(shape, n, at, k)] = take_spare(alive, used, &spare);
    return next;
}

int membership_holder(const struct membership *from, const struct membership_shape *shape, int i,
                      const struct membership *now,
                      bool *copy) {
    int owner = from->slot[i], right = from->slot[membership_right(shape, from, i)];
    *copy = membership_place(now, owner) < 0;
    if (!*copy) return owner;
    return from->n > 1 && membership_place(now, right) >= 0 ? right : -1;
}

int64_t membership_back(const int64_t *said, const struct membership_shape *shape, const struct membership *now,
                        const struct membership *from) {
    int64_t back = -1;
    bool copy, first = true;
    for (int i = 0; i < from->n; i++) {
        int place = membership_place(now, from->slot[i]);
        if (membership_holder(from, shape, i, now, &copy) < 0) return -1;
        if (place < 0) continue;
        if (first || said[place] < back) back = said[place];
        first = false;
    }
    return back;
}
