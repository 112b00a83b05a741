/* Merging flight records: see postmortem.h. */
#include "lib/comm/flight/postmortem.h"

#include <stdlib.h>

static const double silence_s = 1;

static int64_t called(const struct flight_set *set, int rank, uint32_t hash) {
    const struct flight_group *group = set->ring[rank] ? flight_group_find(set->ring[rank], hash) : NULL;
    return group ? group->called : -1; /* -1: the rank is no member, or has no record */
}
static int64_t most_called(const struct flight_set *set, uint32_t hash) {
    int64_t most = 0;
    for (int r = 0; r < set->size; r++)
        if (called(set, r, hash) > most) most = called(set, r, hash);
    return most;
}

/* ---- mismatches: the calls of all rings, sorted by (group, sequence, rank) ---- */

struct call { const struct flight_row *row; int rank; };
struct calls { struct call *at; size_t n; };

static int by_group(const void *a, const void *b) {
    const struct call *x = a, *y = b;
    if (x->row->group != y->row->group) return x->row->group < y->row->group ? -1 : 1;
    if (x->row->sequence != y->row->sequence) return x->row->sequence < y->row->sequence ? -1 : 1;
    return x->rank - y->rank;
}

static enum status collect(const struct flight_set *set, struct calls *calls) {
    *calls = (struct calls){malloc((size_t)set->n_found * FLIGHT_ROWS * sizeof *calls->at), 0};
    if (!calls->at) return FAIL(E_MEMORY, "no memory to compare %d flight records", set->n_found);
    for (int r = 0; r < set->size; r++)
        for (int64_t i = 1; set->ring[r] && i <= FLIGHT_ROWS; i++) {
            const struct flight_row *row = flight_row_at(set->ring[r], flight_dropped(set->ring[r]) + i);
            if (row && !flight_is_message(row)) calls->at[calls->n++] = (struct call){row, r};
        }
    qsort(calls->at, calls->n, sizeof *calls->at, by_group);
    return OK;
}

static bool same(const struct flight_row *a, const struct flight_row *b) {
    bool reduces = a->op == COMM_ALL_REDUCE || a->op == COMM_REDUCE || a->op == COMM_REDUCE_SCATTER;
    return a->op == b->op && a->count == b->count && a->dtype == b->dtype && a->peer == b->peer &&
           (!reduces || a->reduction == b->reduction);
}

/* The next call of the same rank in the same group, or NULL. */
static const struct flight_row *next_of(const struct calls *calls, const struct call *call) {
    struct flight_row wanted = *call->row;
    wanted.sequence++;
    struct call key = {&wanted, call->rank}, *found = bsearch(&key, calls->at, calls->n, sizeof key, by_group);
    return found ? found->row : NULL;
}

static enum postmortem_mismatch compare_next(const struct calls *calls, const struct call *odd,
                                             const struct call *other) {
    const struct flight_row *after = next_of(calls, odd), *other_after = next_of(calls, other);
    bool early = other_after && same(odd->row, other_after), late = after && same(after, other->row);
    return early && late ? MISMATCH_SWAPPED : early ? MISMATCH_LEFT_OUT : late ? MISMATCH_ONE_MORE : MISMATCH_DIFFERS;
}

/* Compare the calls of n members to one collective: does one differ from most? */
static void look_at(const struct calls *calls, const struct call *run, size_t n, struct postmortem *p) {
    const struct call *differs = NULL;
    size_t alike = 0;
    for (size_t i = 0; i < n; i++) {
        if (same(run[i].row, run[0].row)) alike++;
        else if (!differs) differs = &run[i];
    }
    if (!differs) return;
    bool first_is_odd = 2 * alike < n;
    const struct call *odd = first_is_odd ? run : differs, *other = first_is_odd ? differs : run;
    if (p->kind == POSTMORTEM_MISMATCH && p->row->called_ns <= odd->row->called_ns) return;
    p->kind = POSTMORTEM_MISMATCH;
    p->mismatch = compare_next(calls, odd, other);
    p->rank = odd->rank, p->row = odd->row;
    p->other = other->rank, p->other_row = other->row;
}

static enum status find_mismatch(const struct flight_set *set, struct postmortem *p) {
    struct calls calls;
    TRY(collect(set, &calls));
    for (size_t first = 0, end; first < calls.n; first = end) {
        const struct flight_row *row = calls.at[first].row;
        for (end = first + 1; end < calls.n; end++)
            if (calls.at[end].row->group != row->group || calls.at[end].row->sequence != row->sequence) break;
        look_at(&calls, calls.at + first, end - first, p);
    }
    free(calls.at);
    return OK;
}

/* ---- for which rank each rank waits ---- */

static double since_s(const struct flight_set *set, int64_t ns) { return 1e-9 * (double)(set->now_ns - ns); }

static bool is_silent(const struct postmortem *p, int rank) { return p->of[rank].silent_s > silence_s; }

/* Is rank a more to blame than b? The rank that is silent longer is; if neither is silent, one that does not wait. */
static bool is_worse(const struct postmortem *p, int a, int b) {
    if (b < 0) return true;
    if (is_silent(p, a) || is_silent(p, b)) return p->of[a].silent_s > p->of[b].silent_s;
    return !p->of[a].waits && p->of[b].waits;
}

/* The member most to blame of those that have not yet called the row's operation; -1: none. */
static int missing_of(const struct flight_set *set, const struct postmortem *p, const struct flight_row *row) {
    int worst = -1;
    for (int r = 0; r < set->size; r++) {
        int64_t n = called(set, r, row->group);
        if (n >= 0 && n <= row->sequence && is_worse(p, r, worst)) worst = r;
    }
    return worst;
}

static void look_at_ranks(const struct flight_set *set, struct postmortem *p) {
    for (int r = 0; r < set->size; r++) {
        const struct flight *f = set->ring[r];
        p->of[r] = (struct postmortem_rank){.waits_for = -1};
        p->n_unknown += !f;
        if (!f) continue;
        p->of[r].last = flight_row_at(f, f->written);
        p->of[r].waits = flight_row_at(f, f->wait_row);
        p->of[r].silent_s = since_s(set, f->seen_ns);
        if (p->of[r].waits) p->of[r].waited_s = since_s(set, f->wait_since_ns);
        for (uint32_t g = 0; g < f->n_groups; g++) {
            int64_t behind = f->group[g].open ? most_called(set, f->group[g].hash) - f->group[g].called : 0;
            if (behind > p->of[r].behind) p->of[r].behind = behind;
        }
    }
    for (int r = 0; r < set->size; r++) {
        const struct flight_row *row = p->of[r].waits;
        if (!row) continue;
        bool known = row->peer >= 0 && row->peer < set->size && row->peer != r;
        p->of[r].waits_for = !flight_is_message(row) ? missing_of(set, p, row) : known ? row->peer : -1;
    }
}

/* ---- the verdict ---- */

static bool waits_in(const struct postmortem_rank *rank, const struct flight_row *row) {
    return rank->waits && rank->waits->group == row->group && rank->waits->sequence == row->sequence &&
           flight_is_message(rank->waits) == flight_is_message(row);
}

/* The row of this rank for the same collective, if the rank has called it and it is not done; or else NULL. */
static const struct flight_row *open_row(const struct flight_set *set, int rank, const struct flight_row *row) {
    const struct flight *f = set->ring[rank];
    for (int i = 0; f && i < FLIGHT_ROWS; i++) {
        const struct flight_row *mine = &f->row[i];
        if (mine->number > 0 && mine->group == row->group && mine->sequence == row->sequence &&
            !flight_is_message(mine) && !flight_is_message(row))
            return mine->state < FLIGHT_QUEUED ? mine : NULL;
    }
    return NULL;
}

static void blame(const struct flight_set *set, struct postmortem *p, enum postmortem_kind kind, int rank, int other) {
    p->kind = kind;
    p->rank = rank, p->other = other;
    p->other_row = p->of[other].waits;
    for (int r = 0; r < set->size; r++) {
        if (!waits_in(&p->of[r], p->other_row)) continue;
        p->n_waiting += r != rank;
        if (r != rank && p->of[r].waited_s > p->waited_s) p->waited_s = p->of[r].waited_s;
    }
    if (rank < 0) return;
    p->row = open_row(set, rank, p->other_row);
    int64_t n = called(set, rank, p->other_row->group);
    if (!flight_is_message(p->other_row) && n >= 0) p->behind = most_called(set, p->other_row->group) - n;
}

/* Follow "waits for" from rank to rank, to a rank that waits for none or is silent, at most once around a circle. */
static int follow(const struct flight_set *set, const struct postmortem *p, int rank, int *before) {
    for (int i = 0; i < set->size && p->of[rank].waits_for >= 0 && !is_silent(p, rank); i++) {
        *before = rank;
        rank = p->of[rank].waits_for;
    }
    return rank;
}

static double part_done(const struct flight_row *row) { return row->hops ? (double)row->hop / row->hops : 0; }

/* The member to blame if all known members have called the collective: the silent one, or the one with the fewest hops
 * done; -1: they cannot be distinguished. */
static int least_far(const struct flight_set *set, const struct postmortem *p, const struct flight_row *row) {
    int worst = -1;
    double least = 1;
    for (int r = 0; r < set->size; r++) {
        const struct flight_row *mine = open_row(set, r, row);
        bool silent = mine && (is_silent(p, r) || (worst >= 0 && is_silent(p, worst)));
        if (!mine || (!silent && mine->hops == 0)) continue;
        if (silent ? !is_worse(p, r, worst) : part_done(mine) >= least) continue;
        worst = r;
        least = part_done(mine);
    }
    return worst;
}

static void find_who_waits(const struct flight_set *set, struct postmortem *p) {
    int from = -1, before = -1;
    for (int r = 0; r < set->size; r++)
        if (p->of[r].waits && !is_silent(p, r) && (from < 0 || p->of[r].waited_s > p->of[from].waited_s)) from = r;
    if (from < 0) return;
    int end = follow(set, p, from, &before);
    bool end_waits = p->of[end].waits && !is_silent(p, end);
    if (before >= 0 && !end_waits) blame(set, p, POSTMORTEM_MISSING, end, before);
    else if (p->of[end].waits_for >= 0) blame(set, p, POSTMORTEM_CIRCLE, end, p->of[end].waits_for);
    else blame(set, p, POSTMORTEM_STUCK, least_far(set, p, p->of[end].waits), end);
}

enum status postmortem_find(const struct flight_set *set, struct postmortem *out) {
    *out = (struct postmortem){.rank = -1, .other = -1, .of = calloc((size_t)set->size, sizeof *out->of)};
    if (!out->of) return FAIL(E_MEMORY, "no memory for what %d ranks do", set->size);
    look_at_ranks(set, out);
    enum status status = find_mismatch(set, out);
    if (status == OK && out->kind == POSTMORTEM_NONE) find_who_waits(set, out);
    if (status != OK) postmortem_fini(out);
    return status;
}

void postmortem_fini(struct postmortem *p) {
    free(p->of);
    p->of = NULL;
}
