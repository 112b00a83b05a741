/* The interpreter of tables of hops. See hop_walk.h, and hops.h for the two rules of order.
 *
 * A *lane* has the rows that send to one peer, or that receive from it, in their order; copies have a lane of their
 * own. In each lane only the first row that has not begun and the first that has not ended are checked. So the cost of
 * a check grows with the number of lanes, not of rows.
 *
 *   begins   when it conflicts with no unfinished earlier row (rule 1); an ADD when one of two term buffers is free
 *   ends     when its message ends; an ADD also waits for conflicting earlier rows, and then its terms are added
 *
 * Conflicts can only disappear, so each row counts the earlier rows that are known not to conflict any more (`clear`).
 *
 * Terms arrive in two buffers that stay in a core's cache: one is added while the other is being received. */
#include "lib/comm/hops/hop_walk.h"

#include "lib/base/integer.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

struct row_state {
    struct hop_ticket ticket;
    int next;                /* the next row of its lane */
    int clear;               /* the first `clear` rows do not conflict with it any more */
    int add;                 /* of an ADD: the number of ADDs before it */
    bool done;
};
struct lane { int begin, end, last; };   /* rows: the next to begin, the first that has not ended, the last */

struct hop_walk {
    struct hop_table table;
    struct hop_buffers buffers;
    const struct hop_transport *transport;
    void *self;
    int64_t element_bytes;
    char *scratch, *slots;
    struct row_state *row;
    int *add;                /* row of each ADD */
    struct lane *lane;
    int n_lanes, n_done;
    bool expects;            /* all messages are announced to the transport */
};

static int64_t slot_bytes(const struct hop_table *table, int64_t element_bytes) {
    return round_up(table->most_added * element_bytes, 64);
}
int64_t hop_walk_bytes(const struct hop_table *table, int64_t element_bytes) {
    return round_up(table->scratch * element_bytes, 64) + HOP_SLOTS * slot_bytes(table, element_bytes);
}

/* ---- opening ---- */

static struct lane *lane_of(struct hop_walk *walk, const struct hop_row *row) {
    for (int l = 0; l < walk->n_lanes; l++)
        if (hops_same_lane(&walk->table.hop[walk->lane[l].last], row)) return &walk->lane[l];
    walk->lane[walk->n_lanes] = (struct lane){NONE, NONE, NONE};
    return &walk->lane[walk->n_lanes++];
}

/* Lanes are in the order of their first rows, so that rows that may begin at once begin in the table's order. */
static void line_up(struct hop_walk *walk) {
    int n_adds = 0;
    for (int i = 0; i < walk->table.n; i++) {
        struct lane *lane = lane_of(walk, &walk->table.hop[i]);
        walk->row[i].next = NONE;
        if (lane->last == NONE) lane->begin = lane->end = i;
        else walk->row[lane->last].next = i;
        lane->last = i;
        if (walk->table.hop[i].kind != HOP_ADD) continue;
        walk->row[i].add = n_adds;
        walk->add[n_adds++] = i;
    }
}

enum status hop_walk_open(struct hop_table *table, int n, int64_t element_bytes, const struct hop_buffers *buffers,
                          void *memory, const struct hop_transport *transport, void *self, struct hop_walk **out) {
    struct hop_walk *walk = calloc(1, sizeof *walk);
    int64_t scratch_bytes = round_up(table->scratch * element_bytes, 64);
    if (walk) {
        *walk = (struct hop_walk){*table,
                                  *buffers,
                                  transport,
                                  self,
                                  element_bytes,
                                  memory,
                                  (char *)memory + scratch_bytes,
                                  calloc((size_t)table->n, sizeof *walk->row),
                                  calloc((size_t)table->n, sizeof(int)),
                                  calloc(2 * (size_t)n + 1, sizeof *walk->lane),
                                  0,
                                  0,
                                  false};
        *table = (struct hop_table){0};
    }
    *out = walk;
    if (walk && walk->row && walk->add && walk->lane) {
        line_up(walk);
        return OK;
    }
    int n_rows = walk ? walk->table.n : table->n;
    hop_walk_close(out);
    hop_table_free(table);
    return FAIL(E_MEMORY, "no memory to run %d hops", n_rows);
}

int hop_walk_done(const struct hop_walk *walk, int *of) {
    *of = walk->table.n;
    return walk->n_done;
}

void hop_walk_close(struct hop_walk **walk) {
    if (!*walk) return;
    hop_table_free(&(*walk)->table);
    free((*walk)->row);
    free((*walk)->add);
    free((*walk)->lane);
    free(*walk);
    *walk = NULL;
}

/* ---- rows ---- */

static char *place(const struct hop_walk *walk, enum hop_space space, int64_t first) {
    const char *at = space == HOP_FROM ? walk->buffers.from : space == HOP_TO ? walk->buffers.to : walk->scratch;
    return (char *)at + first * walk->element_bytes;
}
static char *slot(const struct hop_walk *walk, const struct row_state *row) {
    return walk->slots + row->add % HOP_SLOTS * slot_bytes(&walk->table, walk->element_bytes);
}

static bool is_clear(struct hop_walk *walk, int i) {
    struct row_state *row = &walk->row[i];
    for (; row->clear < i; row->clear++)
        if (!walk->row[row->clear].done && hops_conflict(&walk->table.hop[row->clear], &walk->table.hop[i]))
            return false;
    return true;
}

static bool may_begin(struct hop_walk *walk, int i) {
    const struct row_state *row = &walk->row[i];
    if (walk->table.hop[i].kind != HOP_ADD) return is_clear(walk, i);
    return row->add < HOP_SLOTS || walk->row[walk->add[row->add - HOP_SLOTS]].done;
}

static void copy(const struct hop_walk *walk, const struct hop_row *hop) {
    char *to = place(walk, hop->space, hop->first), *from = place(walk, hop->source, hop->source_first);
    if (to != from) memcpy(to, from, (size_t)(hop->count * walk->element_bytes));
}

static enum status begin(struct hop_walk *walk, int i) {
    const struct hop_row *hop = &walk->table.hop[i];
    struct row_state *row = &walk->row[i];
    const struct hop_transport *transport = walk->transport;
    int64_t bytes = hop->count * walk->element_bytes;
    char *at = place(walk, hop->space, hop->first);
    switch (hop->kind) {
    case HOP_SEND: return transport->send(walk->self, hop->peer, at, bytes, &row->ticket);
    case HOP_RECV: return transport->receive(walk->self, hop->peer, at, bytes, &row->ticket);
    case HOP_ADD: return transport->receive(walk->self, hop->peer, slot(walk, row), bytes, &row->ticket);
    default: copy(walk, hop); return OK;
    }
}

/* Has the row ended? `done` may be asked again for a message that has arrived, and returns true again. */
static enum status end(struct hop_walk *walk, int i, bool *ended) {
    const struct hop_row *hop = &walk->table.hop[i];
    struct row_state *row = &walk->row[i];
    *ended = hop->kind == HOP_COPY;
    if (hop->kind != HOP_COPY) TRY(walk->transport->done(walk->self, &row->ticket, ended));
    if (!*ended || hop->kind != HOP_ADD) return OK;
    *ended = is_clear(walk, i);
    if (!*ended) return OK;
    return walk->transport->combine(walk->self, slot(walk, row), place(walk, hop->space, hop->first), hop->count);
}

/* The lane of the table's first SEND that may begin, or NULL. */
static struct lane *next_to_give(struct hop_walk *walk) {
    struct lane *next = NULL;
    for (int l = 0; l < walk->n_lanes; l++) {
        struct lane *lane = &walk->lane[l];
        if (lane->begin == NONE || walk->table.hop[lane->begin].kind != HOP_SEND) continue;
        if ((!next || lane->begin < next->begin) && may_begin(walk, lane->begin)) next = lane;
    }
    return next;
}

static enum status begin_next(struct hop_walk *walk, struct lane *lane) {
    TRY(begin(walk, lane->begin));
    lane->begin = walk->row[lane->begin].next;
    return OK;
}

/* After each row that ends, begin the rows that waited for it. SENDs begin first, because a peer waits for them, and a
 * receive may take the time of a copy. */
static enum status push_lane(struct hop_walk *walk, struct lane *lane, bool *moved) {
    for (bool ended = true; ended; *moved |= ended) {
        for (struct lane *give; (give = next_to_give(walk)); *moved = true) TRY(begin_next(walk, give));
        for (; lane->begin != NONE && may_begin(walk, lane->begin); *moved = true) TRY(begin_next(walk, lane));
        if (lane->end == lane->begin) return OK;
        TRY(end(walk, lane->end, &ended));
        if (!ended) return OK;
        walk->row[lane->end].done = true;
        lane->end = walk->row[lane->end].next;
        walk->n_done++;
    }
    return OK;
}

static enum status expect(struct hop_walk *walk) {
    for (int i = 0; i < walk->table.n && walk->transport->expect; i++) {
        const struct hop_row *hop = &walk->table.hop[i];
        if (hop->kind != HOP_RECV && hop->kind != HOP_ADD) continue;
        TRY(walk->transport->expect(walk->self, hop->peer, hop->count * walk->element_bytes, &walk->row[i].ticket));
    }
    walk->expects = true;
    return OK;
}

enum status hop_walk_push(struct hop_walk *walk, bool *done) {
    if (!walk->expects) TRY(expect(walk));
    for (bool moved = true; moved;) {
        moved = false;
        for (int l = 0; l < walk->n_lanes; l++) TRY(push_lane(walk, &walk->lane[l], &moved));
    }
    *done = walk->n_done == walk->table.n;
    return OK;
}
