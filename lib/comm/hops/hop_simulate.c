/* Runs the tables of all ranks in virtual time. See hop_simulate.h.
 *
 * Links are first come, first served, so events must be handled in the order of their times: each round takes the
 * earliest send that may begin, or the earliest message that has left, and then finishes every row that follows from
 * it. An event that becomes possible later cannot be earlier, since it waits for an event that was not earlier. */
#include "lib/comm/hops/hop_simulate.h"


#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

struct row {
    int next;                  /* the next row with the same peer and direction */
    int buffer;                /* of an ADD: the earlier ADD that uses its buffer, or NONE */
    int clear;                 /* number of earlier rows that have been checked for conflicts */
    double at;                 /* the latest end of the rows, checked so far, for which this row waits */
    double end;                /* NAN: not yet */
};
struct turn { int row; double ready, begins; };     /* a SEND; NONE: no SEND can begin */
struct rank {
    struct hop_table table;
    struct row *row;
    int *lane, *last;          /* [lane]: the first row that is not done, and the last row */
    double busy_until;         /* adding */
    struct turn turn;          /* its earliest SEND; searched again after a change (turn_known false) */
    bool turn_known;
};
struct mail { double *there; int n, n_taken; };     /* messages of an ordered pair of ranks: arrival times, in order */
struct flight { int from, to; double left, busy, latency, *in; };

struct world {
    const struct hop_shape *shape;
    const struct hop_links *links;
    int64_t element_bytes;
    struct rank *rank;
    struct mail *mail;         /* [from n + to] */
    struct flight *flight;     /* messages that have left */
    int n_flights;
    double *out[2], *in[2];    /* [inside 0, between 1][rank or node]: when each link is free */
    hop_visit *visit;
    void *self;
    double end;
};

double link_leave(double *free_at, double now, double busy_s) { return *free_at = fmax(now, *free_at) + busy_s; }
double link_land(double *free_at, double left, double busy_s) { return *free_at = fmax(left, *free_at + busy_s); }

/* ---- opening ---- */

static int n_lanes(const struct world *w) { return 2 * w->shape->n + 1; }
static int lane_of(const struct hop_row *hop) {
    return hop->kind == HOP_COPY ? 0 : 1 + 2 * hop->peer + (hop->kind == HOP_SEND);
}

static enum status open_rank(struct world *w, const struct comm_algorithm *algorithm, int r) {
    struct rank *rank = &w->rank[r];
    TRY(hops_make(algorithm, w->shape, r, &rank->table));
    rank->row = calloc((size_t)rank->table.n + 1, sizeof *rank->row);
    rank->lane = malloc(2 * (size_t)n_lanes(w) * sizeof *rank->lane);
    if (!rank->row || !rank->lane) return FAIL(E_MEMORY, "no memory to simulate %d hops", rank->table.n);
    rank->last = rank->lane + n_lanes(w);
    for (int l = 0; l < 2 * n_lanes(w); l++) rank->lane[l] = NONE;
    int add[HOP_SLOTS], n_adds = 0;
    for (int i = 0; i < rank->table.n; i++) {
        const struct hop_row *hop = &rank->table.hop[i];
        int l = lane_of(hop), *before = rank->last[l] == NONE ? &rank->lane[l] : &rank->row[rank->last[l]].next;
        *before = rank->last[l] = i;
        bool waits = hop->kind == HOP_ADD && n_adds >= HOP_SLOTS;
        rank->row[i] = (struct row){NONE, waits ? add[n_adds % HOP_SLOTS] : NONE, 0, 0, NAN};
        if (hop->kind == HOP_ADD) add[n_adds++ % HOP_SLOTS] = i;
        if (hop->kind == HOP_SEND) w->mail[r * w->shape->n + hop->peer].n++;
    }
    return OK;
}

static enum status open_world(struct world *w, const struct comm_algorithm *algorithm) {
    size_t n = (size_t)w->shape->n;
    w->rank = calloc(n, sizeof *w->rank);
    w->mail = calloc(n * n, sizeof *w->mail);
    w->out[0] = calloc(4 * n, sizeof(double));
    if (!w->rank || !w->mail || !w->out[0]) return FAIL(E_MEMORY, "no memory to simulate %zu ranks", n);
    w->out[1] = w->out[0] + n, w->in[0] = w->out[1] + n, w->in[1] = w->in[0] + n;
    for (int r = 0; r < w->shape->n; r++) TRY(open_rank(w, algorithm, r));
    int n_messages = 0;
    for (size_t p = 0; p < n * n; p++) n_messages += w->mail[p].n;
    w->flight = malloc((size_t)(n_messages + 1) * sizeof *w->flight);
    if (!w->flight) return FAIL(E_MEMORY, "no memory to simulate %d messages", n_messages);
    for (size_t p = 0; p < n * n; p++) {
        w->mail[p].there = malloc((size_t)(w->mail[p].n + 1) * sizeof(double));
        if (!w->mail[p].there) return FAIL(E_MEMORY, "no memory to simulate %d messages", w->mail[p].n);
        w->mail[p].n = 0;
    }
    return OK;
}

static void close_world(struct world *w) {
    for (int r = 0; w->rank && r < w->shape->n; r++) {
        hop_table_free(&w->rank[r].table);
        free(w->rank[r].row);
        free(w->rank[r].lane);
    }
    for (int p = 0; w->mail && p < w->shape->n * w->shape->n; p++) free(w->mail[p].there);
    free(w->rank);
    free(w->mail);
    free(w->flight);
    free(w->out[0]);
}

/* ---- rows ---- */

/* The time since which a row may begin; NAN: it may not begin yet. */
static double clear_at(struct rank *rank, int i) {
    struct row *row = &rank->row[i];
    if (row->buffer != NONE && isnan(rank->row[row->buffer].end)) return NAN;
    if (row->buffer != NONE) row->at = fmax(row->at, rank->row[row->buffer].end);
    for (; row->clear < i; row->clear++) {
        if (!hops_conflict(&rank->table.hop[row->clear], &rank->table.hop[i])) continue;
        if (isnan(rank->row[row->clear].end)) return NAN;
        row->at = fmax(row->at, rank->row[row->clear].end);
    }
    return row->at;
}

static void finish(struct world *w, int r, int i, double from, double end) {
    struct rank *rank = &w->rank[r];
    const struct hop_row *hop = &rank->table.hop[i];
    rank->row[i].end = end;
    rank->turn_known = false;
    int next = rank->lane[lane_of(hop)] = rank->row[i].next;
    if (next != NONE && hop->kind != HOP_SEND) rank->row[next].at = fmax(rank->row[next].at, end);
    w->end = fmax(w->end, end);
    if (w->visit) w->visit(w->self, r, hop, from, end);
}

/* End the lane's next row, which receives, adds or copies. @return false: it cannot end yet */
static bool settle_lane(struct world *w, int r, int l) {
    struct rank *rank = &w->rank[r];
    int i = rank->lane[l];
    if (i == NONE || rank->table.hop[i].kind == HOP_SEND) return false;
    const struct hop_row *hop = &rank->table.hop[i];
    double at = clear_at(rank, i);
    if (isnan(at)) return false;
    if (hop->kind != HOP_COPY) {
        struct mail *mail = &w->mail[hop->peer * w->shape->n + r];
        if (mail->n_taken == mail->n) return false;
        at = fmax(at, mail->there[mail->n_taken++]);
    }
    double from = hop->kind == HOP_ADD ? fmax(at, rank->busy_until) : at;
    double adding = hop->kind == HOP_ADD ? (double)(hop->count * w->element_bytes) * w->links->s_per_byte_added : 0;
    if (hop->kind == HOP_ADD) rank->busy_until = from + adding;
    finish(w, r, i, from, from + adding);
    return true;
}

static void settle(struct world *w, int r) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int l = 0; l < n_lanes(w); l++)
            while (settle_lane(w, r, l)) moved = true;
    }
}

/* The link of `rank` for messages to `other` (way: out) or from it (way: in). */
static double *link_of(const struct world *w, double *const way[2], int rank, int other) {
    int node = hop_node(w->shape, rank), between = node != hop_node(w->shape, other);
    return &way[between][between && w->links->nic_per_node ? node : rank];
}

/* The earliest SENDs of the node's ranks must be searched again, because their shared NIC is now busy. */
static void forget_turns(struct world *w, int node) {
    for (int r = 0; r < w->shape->n; r++)
        if (hop_node(w->shape, r) == node) w->rank[r].turn_known = false;
}

static void send(struct world *w, int r, int i, double at) {
    const struct hop_row *hop = &w->rank[r].table.hop[i];
    int node = hop_node(w->shape, r), between = node != hop_node(w->shape, hop->peer);
    double busy = (double)(hop->count * w->element_bytes) * w->links->s_per_byte[between];
    double left = link_leave(link_of(w, w->out, r, hop->peer), at, busy);
    if (between && w->links->nic_per_node) forget_turns(w, node);
    w->flight[w->n_flights++] = (struct flight){r, hop->peer, left, busy, w->links->latency_s[between],
                                                link_of(w, w->in, hop->peer, r)};
    finish(w, r, i, left - busy, left);
    settle(w, r);
}

static void land(struct world *w, int f) {
    const struct flight flight = w->flight[f];
    struct mail *mail = &w->mail[flight.from * w->shape->n + flight.to];
    mail->there[mail->n++] = link_land(flight.in, flight.left, flight.busy) + flight.latency;
    w->end = fmax(w->end, mail->there[mail->n - 1]);
    w->n_flights--;
    memmove(w->flight + f, w->flight + f + 1, (size_t)(w->n_flights - f) * sizeof *w->flight);
    settle(w, flight.to);
}

/* A rank's earliest SEND. If several wait for one link, the one that was ready first goes first. */
static struct turn turn_of(const struct world *w, int r) {
    struct turn first = {NONE, 0, INFINITY};
    for (int p = 0; p < w->shape->n; p++) {
        int i = w->rank[r].lane[2 + 2 * p];
        double ready = i == NONE ? NAN : clear_at(&w->rank[r], i);
        if (isnan(ready)) continue;
        double begins = fmax(ready, *link_of(w, w->out, r, p));
        bool before = ready < first.ready || (ready == first.ready && i < first.row);
        if (begins < first.begins || (begins == first.begins && before)) first = (struct turn){i, ready, begins};
    }
    return first;
}

/* The rank with the earliest SEND of all, by the same rule. Only ranks with changes are searched again: to search all
 * lanes of all ranks at every event would take seconds for 64 ranks. */
static int next_sender(struct world *w) {
    int first = 0;
    for (int r = 0; r < w->shape->n; r++) {
        if (!w->rank[r].turn_known) w->rank[r].turn = turn_of(w, r);
        w->rank[r].turn_known = true;
        const struct turn *turn = &w->rank[r].turn, *least = &w->rank[first].turn;
        bool before = turn->begins == least->begins && turn->ready < least->ready;
        if (turn->begins < least->begins || before) first = r;
    }
    return first;
}

/* Handle the earliest event of all; false: there is none. Of messages that left at the same time, the one sent first
 * lands first. */
static bool next_event(struct world *w) {
    int flight = NONE, rank = next_sender(w);
    const struct turn turn = w->rank[rank].turn;
    double land_at = INFINITY;
    for (int f = 0; f < w->n_flights; f++)
        if (w->flight[f].left < land_at) land_at = w->flight[f].left, flight = f;
    if (flight != NONE && land_at <= turn.begins) land(w, flight);
    else if (turn.row != NONE) send(w, rank, turn.row, turn.ready);
    else return false;
    return true;
}

static bool all_are_done(const struct world *w) {
    for (int r = 0; r < w->shape->n; r++)
        for (int l = 0; l < n_lanes(w); l++)
            if (w->rank[r].lane[l] != NONE) return false;
    return true;
}

enum status hop_simulate(const struct comm_algorithm *algorithm, const struct hop_shape *shape, int64_t element_bytes,
                         const struct hop_links *links, hop_visit *visit, void *self, double *seconds) {
    struct world w = {.shape = shape, .links = links, .element_bytes = element_bytes, .visit = visit, .self = self};
    enum status status = open_world(&w, algorithm);
    if (status == OK) {
        for (int r = 0; r < shape->n; r++) settle(&w, r);
        while (next_event(&w)) {}
        if (!all_are_done(&w))
            status = FAIL(E_INTERNAL, "%s of %d ranks waits for itself", algorithm->name, shape->n);
    }
    close_world(&w);
    *seconds = w.end;
    return status;
}
