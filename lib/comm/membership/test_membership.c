/* ranks: 1  device: cpu */
/* A model checker over the rows of membership.c and the snapshots that a rank keeps. It tries every order in which
 * three ranks, with and without a spare, can train, copy, report and move, while two of them die at any moment. It
 * checks in every reachable state:
 *
 *   nothing is lost      a shard that is moved exists, at the agreed step, and of the epoch that all go back to
 *   nothing is undone    no rank goes back beyond a step that all members had committed
 *   disk is the last     ranks read the disk only if two neighbors of the epoch that they go back to are dead
 *   no endless wait      if no event can follow, all members have finished
 *
 * The lighthouse also plans epochs meanwhile (planned.c): a spare adds a rank, or a rank leaves.
 *
 * Each planted mistake must be found. LONG=1: test the largest worlds, too. STATES=1: print the number of states. */
#include "lib/comm/membership/test_membership.h"
#include "lib/comm/membership/planned.h"
#include "tests/test.h"

#include <stdlib.h>

static const struct membership_shape ALL = {1, 1, 0, 0, 0, {0}};  /* every rank is a replica */
enum mistake {
    NONE,
    COUNTS_EARLY,     /* a snapshot counts before its copy has come */
    NO_COMMIT,        /* ranks go back to an epoch even if it is not committed */
    ONE_GENERATION,   /* a new epoch's first snapshot drops those of the old epoch */
    THE_MOST,         /* ranks go back to the newest reported step, not to the oldest */
    JOINS_EARLY,      /* a rank joins the next sums before its copy has come */
    LATE_MESSAGE,     /* a rank accepts a copy of an older epoch */
    DRAINS_ALONE,     /* a rank drains as soon as it sees that the epoch must end, without agreement */
    FORGETS_WHO_DRAINED,     /* all members have drained, but no epoch opens because its reason is gone */
    SLOT_AGAIN,       /* a new process gets the number of the dead one */
    LEAVES_WITH_A_DEATH,     /* the epoch after a death also leaves out the rank that asked to leave */
    ENDS_EARLY,       /* a rank that has left is ended before the others have committed */
    LEAVES_LAST,      /* the only rank that has a shard leaves */
    N_MISTAKES
};

/* ---- the checker: states that have been seen ---- */
struct checker {
    enum mistake mistake;
    struct world world;
    int n_slots;
    struct membership_shape shape;
    struct model *state;                             /* [n]; the successors of the first `done` are known */
    uint32_t *after;                                 /* [n]: the state from which each state was reached */
    uint32_t *table;                                 /* 1 + index; 0: free */
    int64_t n, done, room, table_size;
    char wrong[160];                                 /* the first violation, "": none; wrong_in: its state */
    struct model wrong_in;
    struct words way;                                /* the events that lead to wrong_in */
    int64_t went_back, to_disk, ended;
};

static uint64_t hash(const struct model *m) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *m; i++) h = (h ^ ((const unsigned char *)m)[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static void table_grow(struct checker *c) {
    c->table_size = c->table_size ? 2 * c->table_size : 1 << 16;
    free(c->table);
    c->table = calloc((size_t)c->table_size, sizeof *c->table);
    for (int64_t k = 0; k < c->n; k++) {
        uint64_t at = hash(&c->state[k]) & (uint64_t)(c->table_size - 1);
        while (c->table[at]) at = (at + 1) & (uint64_t)(c->table_size - 1);
        c->table[at] = (uint32_t)k + 1;
    }
}

static void reach(struct checker *c, const struct model *m) {
    if (2 * c->n >= c->table_size) table_grow(c);
    uint64_t at = hash(m) & (uint64_t)(c->table_size - 1);
    for (; c->table[at]; at = (at + 1) & (uint64_t)(c->table_size - 1))
        if (memcmp(&c->state[c->table[at] - 1], m, sizeof *m) == 0) return;
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        c->state = realloc(c->state, (size_t)c->room * sizeof *c->state);
        c->after = realloc(c->after, (size_t)c->room * sizeof *c->after);
    }
    c->table[at] = (uint32_t)c->n + 1;
    c->after[c->n] = (uint32_t)c->done;
    c->state[c->n++] = *m;
}

static void violated(struct checker *c, const struct model *m, const char *format, ...) {
    if (c->wrong[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->wrong, sizeof c->wrong, format, arguments);
    va_end(arguments);
    c->wrong_in = *m;
}

/* Write the events that lead to state k. The search is breadth-first, so no path is shorter. */
static void say_way_to(const struct checker *c, struct words *w, int64_t k) {
    if (k == 0) return;
    say_way_to(c, w, c->after[k]);
    say_what_happens(w, &c->state[c->after[k]], &c->state[k]);
}

/* ---- the model's epochs as a struct membership ---- */
static struct membership epoch_of(const struct model *m, int e) {
    struct membership x = {.number = e, .n = m->n[e], .from = m->from[e]};
    for (int i = 0; i < x.n; i++) x.slot[i] = m->slot[e][i];
    return x;
}
static uint8_t members(const struct model *m, int e) {
    uint8_t bits = 0;
    for (int i = 0; i < m->n[e]; i++) bits |= (uint8_t)(1 << m->slot[e][i]);
    return bits;
}
static int left_of(const struct model *m, int e, int slot) {
    struct membership x = epoch_of(m, e);
    return x.slot[(membership_place(&x, slot) + x.n - 1) % x.n];
}
static bool is_committed(const struct model *m, int e) { return m->committed[e] == members(m, e); }

static void open_membership(struct checker *c, struct model *m, const struct membership *next) {
    if (m->n_epochs == EPOCHS) {
        violated(c, m, "the model has room for fewer epochs than there are");
        return;
    }
    int e = m->n_epochs++;
    m->n[e] = (int8_t)next->n;
    m->from[e] = (int8_t)next->from;
    for (int i = 0; i < next->n; i++) m->slot[e][i] = (int8_t)next->slot[i];
    for (int r = 0; r < SLOTS; r++) m->said[e][r] = -2;
}

/* May process r be a member or spare? One that has left may not, after all others have committed without it. */
static bool is_of_use(const struct checker *c, const struct model *m, int r, const struct membership *now) {
    bool leaves = r == m->leaver && (c->mistake == LEAVES_WITH_A_DEATH ||
                                     (membership_place(now, r) < 0 && is_committed(m, now->number)));
    return m->rank[r].alive && !leaves;
}

/* The lighthouse has seen a death, and opens the next epoch. */
static void open_for_death(struct checker *c, struct model *m) {
    bool alive[SLOTS];
    struct membership now = epoch_of(m, m->n_epochs - 1);
    for (int r = 0; r < c->n_slots; r++) alive[r] = is_of_use(c, m, r, &now);
    struct membership next = membership_after(&now, c->mistake == NO_COMMIT || is_committed(m, now.number), alive,
                                              c->n_slots, &c->shape);
    open_membership(c, m, &next);
}

/* The lighthouse plans an epoch; it may not yet have seen a member's death. @return whether there is a plan */
static bool plan(struct checker *c, struct model *m) {
    bool ready[SLOTS], alive[SLOTS];
    int request[SLOTS];
    struct planned_job job = {epoch_of(m, m->n_epochs - 1), ready, alive, request, c->n_slots, 1, c->shape};
    if (!is_committed(m, job.now.number)) return false;
    for (int r = 0; r < c->n_slots; r++) {
        request[r] = r == m->leaver ? MEMBER_LEAVES : MEMBER_STAYS;
        alive[r] = m->rank[r].alive || membership_place(&job.now, r) >= 0;
        ready[r] = alive[r] && !request[r];
    }
    struct planned planned = planned_membership(&job);
    if (c->mistake == LEAVES_LAST && planned.cannot >= 0) {
        ready[planned.cannot] = false;
        planned.next = membership_after(&job.now, true, ready, c->n_slots, &c->shape);
    }
    if (m->asked != job.now.number) {
        m->asked = planned.next.n ? (int8_t)job.now.number : -1;
        return planned.next.n > 0;
    }
    if (m->drained[job.now.number] != members(m, job.now.number)) return false;
    if (planned.next.n == 0 && c->mistake == FORGETS_WHO_DRAINED) return false;
    if (planned.next.n == 0) planned.next = planned_anyway(&job);
    open_membership(c, m, &planned.next);
    return true;
}

/* ---- a rank's snapshots ---- */
static int64_t newest(const struct checker *c, const struct rank *r, int e) {
    int64_t most = membership_newest(&r->store, e);
    for (int64_t s = 0; c->mistake == COUNTS_EARLY && s <= STEPS; s++)
        if (membership_find(&r->store, e, s) && s > most) most = s;
    return most;
}

static void forget(struct membership_store *s, int k) {
    s->kept[k].epoch = -1;
    for (int i = 0; i < 2; i++) s->kept[k].of[i] = (struct membership_snapshot){-1, -1};
}

/* A rank keeps its own shard of a step, and sends the copy to its right neighbor. */
static void keep_own(struct checker *c, struct model *m, int slot, int step) {
    struct rank *r = &m->rank[slot];
    int from = m->from[r->epoch];
    membership_room(&r->store, r->epoch, from)->own_step = step;
    for (int k = 0; k < 2; k++)
        if (c->mistake == ONE_GENERATION && r->store.kept[k].epoch < r->epoch) forget(&r->store, k);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++)
            if (r->store.kept[k].of[i].left_step < 0) r->left_of[k][i] = -1;
    r->step = (int8_t)step;
    m->sent[r->epoch][step] |= (uint8_t)(1 << slot);
}

/* Receive the left neighbor's copy of the step that this rank has just kept. @return whether it came */
static bool take_copy(struct checker *c, struct model *m, int slot) {
    struct rank *r = &m->rank[slot];
    int step = r->step, e = r->epoch, came = -1;
    for (int old = c->mistake == LATE_MESSAGE ? 0 : e; old <= e; old++)
        if (m->sent[old][step] >> left_of(m, e, slot) & 1 && came < 0) came = old;
    for (int at = 0; at < 4 && came >= 0; at++) {
        struct membership_snapshot *x = &r->store.kept[at / 2].of[at % 2];
        if (r->store.kept[at / 2].epoch != e || x->own_step != step || x->left_step == step) continue;
        x->left_step = step;
        r->left_of[at / 2][at % 2] = (int8_t)came;
        return true;
    }
    return false;
}

/* Note the step that all members have committed, which no rank may undo. */
static void note_committed(struct model *m) {
    int e = m->n_epochs - 1;
    for (int s = m->step_committed + 1; s <= STEPS; s++) {
        for (int i = 0; i < m->n[e]; i++)
            if (!is_committed(m, e) || membership_newest(&m->rank[m->slot[e][i]].store, e) < s) return;
        m->step_committed = (int8_t)s;
    }
}

/* ---- the actions of a rank between two states ---- */
/* A rank sends the shards that it holds. Check that each exists, at the step and of the epoch that all go back to. */
static void send_shards(struct checker *c, struct model *m, int slot) {
    struct rank *r = &m->rank[slot];
    const struct membership now = epoch_of(m, r->epoch), from = epoch_of(m, now.from);
    int64_t back = c->mistake == THE_MOST ? -1 : STEPS + 1;
    for (int i = 0; i < from.n; i++) {
        int said = m->said[r->epoch][from.slot[i]];
        if (membership_place(&now, from.slot[i]) < 0) continue;
        if (c->mistake == THE_MOST ? said > back : said < back) back = said;
    }
    if (back < m->step_committed)
        violated(c, m, "undone: back to step %d, and all had step %d committed", (int)back, m->step_committed);
    for (int i = 0; i < from.n; i++) {
        bool copy;
        if (membership_holder(&from, &ALL, i, &now, &copy) != slot) continue;
        const struct membership_snapshot *x = membership_find(&r->store, from.number, back);
        if (!x || (copy && x->left_step != back)) {
            violated(c, m, "lost: %d must send the shard that %d had at step %d, and the %s is not there", slot,
                     from.slot[i], (int)back, copy ? "copy" : "shard");
            continue;
        }
        int k = x >= &r->store.kept[1].of[0];
        if (copy && r->left_of[k][x - r->store.kept[k].of] != from.number)
            violated(c, m, "lost: %d must send a copy of what %d had, and it is of another cut", slot, from.slot[i]);
    }
    m->moved[r->epoch] |= (uint8_t)(1 << slot);
    r->step = (int8_t)back;
    c->went_back++;
}

static void act(struct checker *c, struct model *m, int slot, enum member_event event) {
    struct rank *r = &m->rank[slot];
    const struct member_row *row = member_row((enum member_state)r->state, event);
    if (!row) {
        violated(c, m, "a state has no row for what happens in it");
        return;
    }
    r->state = (int8_t)row->next;
    switch (row->action) {
    case DO_REPORT:
        r->epoch = (int8_t)(m->n_epochs - 1);
        r->joined = r->ends = false;
        m->said[r->epoch][slot] = (int8_t)newest(c, r, m->from[r->epoch]);
        break;
    case DO_MOVE: send_shards(c, m, slot); break;
    case DO_KEEP: keep_own(c, m, slot, r->step); break;
    case DO_COMMIT: m->committed[r->epoch] |= (uint8_t)(1 << slot); break;
    case DO_DRAIN: m->drained[r->epoch] |= (uint8_t)(1 << slot); break;
    case DO_READ_DISK: c->to_disk++; break;
    default:
        if (event == EVENT_NO_MEMBER) r->epoch = (int8_t)(m->n_epochs - 1);
    }
}

/* ---- the possible next events ---- */
static bool all_have_said(const struct model *m, int e) {
    const struct membership now = epoch_of(m, e);
    if (m->from[e] < 0) return true;
    for (int i = 0; i < m->n[m->from[e]]; i++) {
        int slot = m->slot[m->from[e]][i];
        if (membership_place(&now, slot) >= 0 && m->said[e][slot] == -2) return false;
    }
    return true;
}

static bool is_gone(struct checker *c, const struct model *m, int e) {
    if (m->from[e] < 0) return true;
    const struct membership now = epoch_of(m, e), from = epoch_of(m, m->from[e]);
    bool copy, gone = false;
    for (int i = 0; i < from.n; i++) {
        int right = from.slot[(i + 1) % from.n];
        bool both = m->rank[from.slot[i]].failed && m->rank[right].failed, lost;
        lost = membership_holder(&from, &ALL, i, &now, &copy) < 0;
        if (lost && !both) violated(c, m, "disk: a shard whose owner or right neighbor lives");
        gone |= lost;
    }
    return gone;
}

/* Add each state that may follow by an action of this rank. @return whether there is one */
static bool step_rank(struct checker *c, const struct model *before, int slot) {
    const struct rank *r = &before->rank[slot];
    const int newest_epoch = before->n_epochs - 1, e = r->epoch;
    struct model m = *before;
    enum member_event event = N_MEMBER_EVENTS;
    const struct membership latest = epoch_of(before, newest_epoch);
    if (!r->alive || r->state == MEMBER_DISK) return false;
    if (newest_epoch > e) {
        act(c, &m, slot, membership_place(&latest, slot) >= 0 ? EVENT_MEMBER : EVENT_NO_MEMBER);
        reach(c, &m);
        m = *before;
    }
    if (r->state == MEMBER_REPORT && all_have_said(before, e))
        event = is_gone(c, before, e) ? EVENT_GONE : EVENT_REPORTED;
    if (r->state == MEMBER_MOVE && before->moved[e] == members(before, e)) event = EVENT_MOVED;
    if (r->state == MEMBER_COPY && take_copy(c, &m, slot)) event = EVENT_COPIED;
    if (event < N_MEMBER_EVENTS) {
        act(c, &m, slot, event);
        note_committed(&m);
        reach(c, &m);
        return true;
    }
    bool any = newest_epoch > e;
    if (r->state != MEMBER_RUN) return any;
    if (take_copy(c, &m, slot)) {
        note_committed(&m);
        reach(c, &m);
        m = *before;
        any = true;
    }
    bool has_copy = newest(c, r, e) == r->step || c->mistake == JOINS_EARLY;
    bool ends = r->ends || (c->mistake == DRAINS_ALONE && before->asked == e && r->step < STEPS);
    if (!r->joined && ends) {
        if (!has_copy) return any;
        act(c, &m, slot, EVENT_ASKED);
        reach(c, &m);
        return true;
    }
    if (!r->joined && r->step < STEPS && has_copy) {
        m.rank[slot].joined = true;
        m.joined[e][r->step] |= (uint8_t)(1 << slot);
        m.ends[e][r->step] |= before->asked == e;
        reach(c, &m);
        return true;
    }
    if (!r->joined || before->joined[e][r->step] != members(before, e)) return any;
    m.rank[slot].joined = false;
    m.rank[slot].ends = before->ends[e][r->step] && r->step + 1 < STEPS;
    keep_own(c, &m, slot, r->step + 1);
    note_committed(&m);
    reach(c, &m);
    return true;
}

/* Add each state that may follow by an event that can come at any time: deaths, starts, plans, requests. */
static void step_world(struct checker *c, const struct model *before) {
    const struct membership latest = epoch_of(before, before->n_epochs - 1);
    for (int r = 0; r < c->n_slots; r++) {
        struct model m = *before;
        if (!before->rank[r].alive || before->deaths == DEATHS) continue;
        m.rank[r].alive = false;
        m.rank[r].failed = true;
        m.deaths++;
        reach(c, &m);
    }
    for (int i = 0; i < latest.n && c->world.leaves && before->leaver < 0; i++) {
        struct model m = *before;
        m.leaver = (int8_t)latest.slot[i];
        reach(c, &m);
    }
}

/* Start a process in place of a dead one, after an epoch without the dead one has opened. */
static bool start_another(struct checker *c, struct model *m, const struct membership *latest) {
    int r = c->n_slots - c->world.late + m->started;
    if (m->started == c->world.late || m->started == m->deaths) return false;
    for (int i = 0; c->mistake == SLOT_AGAIN && i < c->n_slots; i++)
        if (m->rank[i].failed) r = i;
    if (membership_place(latest, r) >= 0) return false;
    m->started++;
    m->rank[r].alive = true;
    m->rank[r].failed = false;
    m->rank[r].state = MEMBER_SPARE;
    m->rank[r].epoch = (int8_t)(m->n_epochs - 1);
    membership_store_clear(&m->rank[r].store);
    return true;
}

static void step_others(struct checker *c, const struct model *before, bool *any) {
    struct model m = *before;
    const struct membership latest = epoch_of(before, before->n_epochs - 1);
    bool dead = false;
    if (latest.n == 0) return;                       /* all are dead: the job is over */
    for (int i = 0; i < latest.n; i++) dead |= !before->rank[latest.slot[i]].alive;
    if (dead) {
        open_for_death(c, &m);
        reach(c, &m);
        *any = true;
        m = *before;
    }
    if (plan(c, &m)) {
        reach(c, &m);
        *any = true;
    }
    m = *before;
    if (start_another(c, &m, &latest)) reach(c, &m);
    m = *before;
    int left = before->leaver;
    bool has_left = left >= 0 && before->rank[left].alive && membership_place(&latest, left) < 0;
    if (has_left && (is_committed(before, latest.number) || c->mistake == ENDS_EARLY)) {
        m.rank[left].alive = false;
        reach(c, &m);
    }
    step_world(c, before);
}

/* No event can follow: all members must have finished, or must wait for the disk. */
static void look_at_the_end(struct checker *c, const struct model *m) {
    const struct membership latest = epoch_of(m, m->n_epochs - 1);
    for (int i = 0; i < latest.n; i++) {
        const struct rank *r = &m->rank[latest.slot[i]];
        bool at_end = r->state == MEMBER_DISK || (r->state == MEMBER_RUN && r->step == STEPS);
        if (r->alive && !at_end) violated(c, m, "stuck: somebody waits and nothing can happen");
    }
    c->ended++;
}

static struct checker check(struct world world, enum mistake mistake) {
    const int n_members = world.members, n_slots = world.slots;
    struct checker c = {.mistake = mistake, .world = world, .n_slots = n_slots, .shape = {1, 1, 0, 0, world.most, {0}}};
    struct model m;
    memset(&m, 0, sizeof m);
    m.n_epochs = 1;
    m.n[0] = (int8_t)n_members;
    m.from[0] = -1;
    m.step_committed = m.asked = m.leaver = -1;
    for (int r = 0; r < SLOTS; r++) {
        struct rank *x = &m.rank[r];
        membership_store_clear(&x->store);
        memset(x->left_of, -1, sizeof x->left_of);
        x->alive = r < n_slots - world.late;
        x->state = r < n_members ? MEMBER_COPY : MEMBER_SPARE;
        if (r < n_members) m.slot[0][r] = (int8_t)r;
    }
    for (int r = 0; r < n_members; r++) keep_own(&c, &m, r, 0);
    reach(&c, &m);
    for (; c.done < c.n; c.done++) {
        const struct model now = c.state[c.done];
        bool any = false;
        for (int r = 0; r < n_slots; r++) any |= step_rank(&c, &now, r);
        step_others(&c, &now, &any);
        if (!any) look_at_the_end(&c, &now);
        if (c.wrong[0]) break;
    }
    if (c.wrong[0]) {
        say_way_to(&c, &c.way, c.done);
        say_what_happens(&c.way, &c.state[c.done], &c.wrong_in);
    }
    if (getenv("STATES"))
        dprintf(2, "%d members of %d, %d late, at most %d%s, mistake %d: %lld states, %lld ends; %s\n", n_members,
                n_slots, world.late, world.most, world.leaves ? ", one leaves" : "", mistake, (long long)c.n,
                (long long)c.ended, c.wrong[0] ? c.wrong : "all well");
    free(c.state);
    free(c.after);
    free(c.table);
    return c;
}

TEST(test_in_every_order_nothing_is_lost) {
    static const struct world worlds[] = {
        {1, 1, 0, 0, 0}, {1, 2, 0, 0, 0}, {2, 2, 0, 0, 0}, {2, 3, 0, 0, 0}, {3, 3, 0, 0, 0},    /* only deaths */
        {1, 2, 2, 0, 0}, {2, 3, 3, 0, 0},                            /* a spare adds a rank */
        {2, 3, 2, 1, 0}, {1, 3, 2, 1, 0},                            /* a process starts in place of a dead one */
        {1, 2, 0, 0, 1}, {2, 2, 0, 0, 1}, {2, 3, 0, 0, 1},           /* one rank leaves */
        {3, 4, 0, 0, 0}, {3, 3, 0, 0, 1}, {2, 4, 3, 1, 0}};          /* LONG: each needs a GB of memory */
    size_t n = sizeof worlds / sizeof *worlds - (getenv("LONG") ? 0 : 3);
    for (size_t i = 0; i < n; i++) {
        struct checker c = check(worlds[i], NONE);
        if (c.wrong[0])
            fail_msg("%d ranks and %d spares: %s\n%s", worlds[i].members,
                     worlds[i].slots - worlds[i].members, c.wrong, c.way.text);
        assert_true(c.ended > 0 && (worlds[i].members < 3 || (c.went_back > 0 && c.to_disk > 0)));
    }
}

TEST(test_every_mistake_is_found) {
    static const struct world worlds[N_MISTAKES] = {             /* in which the mistake shows; zeros: three members */
        [ONE_GENERATION] = {3, 4, 0, 0, 0}, [DRAINS_ALONE] = {2, 3, 3, 0, 0}, [FORGETS_WHO_DRAINED] = {2, 3, 3, 0, 0},
        [SLOT_AGAIN] = {2, 3, 2, 1, 0}, [LEAVES_WITH_A_DEATH] = {3, 3, 0, 0, 1}, [ENDS_EARLY] = {3, 3, 0, 0, 1},
        [LEAVES_LAST] = {1, 2, 0, 0, 1}};
    for (enum mistake mistake = NONE + 1; mistake < N_MISTAKES; mistake++) {
        struct world world = worlds[mistake].members ? worlds[mistake] : (struct world){3, 3, 0, 0, 0};
        if (!check(world, mistake).wrong[0]) fail_msg("mistake %d is not found", mistake);
    }
}

TESTS(unit_test(test_in_every_order_nothing_is_lost), unit_test(test_every_mistake_is_found))
