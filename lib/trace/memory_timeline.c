#include "lib/trace/memory_timeline.h"

#include <stdlib.h>
#include <string.h>

static bool later(struct row_time a, struct row_time b) { return a.tape != b.tape ? a.tape > b.tape : a.row > b.row; }
static void add(int64_t to[N_ROLES], const int64_t x[N_ROLES], int sign) {
    for (enum role r = 0; r < N_ROLES; r++) to[r] += sign * x[r];
}

/* ---- memory that is always alive ---- */
static void count_param(const struct param *w, int64_t resident[N_ROLES]) {
    for (const struct param_array *a = w->arrays; a < w->arrays + w->n_arrays; a++)
        if (a->tier == TIER_DEVICE) resident[a->role] += a->copies * param_array_bytes(a);
}

static void count_resident(const struct program *p, const struct memory_plan *m, int64_t resident[N_ROLES]) {
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].present) count_param(&p->params[i], resident);
    for (int d = 0; d < N_CHANNELS; d++) resident[ROLE_COMM] += m->ring[d].slots * m->ring[d].bytes;
    int64_t techniques = m->bytes[TIER_DEVICE][ROLE_COMM] - m->technique_offset;
    if (techniques > 0) resident[ROLE_COMM] += techniques;
    resident[ROLE_WORK] += m->run_bytes;
}

/* ---- the values of one microbatch, by chunk and tape ---- */
struct tape_bytes {
    int64_t (*at)[N_ROLES];              /* [rows]: alive in the row */
    int64_t after[N_ROLES];              /* alive from the end of this tape to the begin of the next tape */
};

/* Add the storage to the tape's rows in which it is alive. Its birth may be before the tape, its death after it. */
static void count_storage(const struct storage *s, enum tape_kind tape, int n_rows, struct tape_bytes *out) {
    struct row_time begin = {tape, 0}, end = {tape, n_rows - 1};
    if (later(s->birth, end) || later(begin, s->death)) return;
    int from = later(begin, s->birth) ? 0 : s->birth.row, to = later(s->death, end) ? n_rows - 1 : s->death.row;
    for (int row = from; row <= to; row++) out->at[row][s->role] += s->bytes;
}

static enum status count_tape(const struct chunk *k, enum tape_kind tape, struct tape_bytes *out) {
    int n = k->tapes[tape].n;
    out->at = calloc((size_t)n + 1, sizeof *out->at);
    if (!out->at) return FAIL(E_MEMORY, "no memory for the time line of %d rows", n);
    for (int i = 0; i < k->n_storages; i++) {
        const struct storage *s = &k->storages[i];
        if (s->tier != TIER_DEVICE) continue;
        count_storage(s, tape, n, out);
        if (s->birth.tape <= tape && s->death.tape > tape) out->after[s->role] += s->bytes;
    }
    return OK;
}

/* ---- the schedule ---- */
struct walk {
    const struct chunk *chunks;
    struct tape_bytes (*tapes)[N_TAPES]; /* [chunk] */
    int64_t between[N_ROLES];            /* alive values of microbatches that are between two of their actions */
    int64_t landed[N_ROLES];             /* received values, until the next compute action */
};

static bool dies_in(const struct chunk *k, int value, enum tape_kind tape) {
    return k->storages[k->values[value].storage].death.tape == tape;
}

static void add_value(const struct chunk *k, int value, int64_t to[N_ROLES]) {
    const struct storage *s = &k->storages[k->values[value].storage];
    to[s->role] += s->bytes;
}

/* Received values are alive before the first row of their action; sent values stay alive after the last row. */
static void point_of_transfer(struct walk *w, const struct action *a, struct memory_point *p) {
    const struct chunk *k = &w->chunks[a->chunk];
    bool receives = a->kind == RECV_F || a->kind == RECV_B;
    for (int i = 0, v; i < MAX_STREAMS; i++) {
        if ((v = chunk_moves(k, a->kind)[i]) < 0) continue;
        if (receives) add_value(k, v, w->landed);
        else if (dies_in(k, v, a->kind == SEND_F ? TAPE_F : TAPE_B)) add_value(k, v, p->alive);
    }
    add(p->alive, w->between, 1);
    add(p->alive, w->landed, 1);
}

/* While an action runs, its microbatch is not between two actions. */
static void begin_action(struct walk *w, const struct action *a) {
    if (a->kind != ACTION_F) add(w->between, w->tapes[a->chunk][a->kind - 1].after, -1);
    memset(w->landed, 0, sizeof w->landed);
}

static void walk_action(struct walk *w, const struct schedule *s, int i, struct memory_timeline *t) {
    const struct action *a = &s->actions[i];
    t->first[i] = t->n;
    if (!action_is_compute(a->kind)) {
        struct memory_point *p = &t->points[t->n++];
        *p = (struct memory_point){.action = i, .row = -1};
        add(p->alive, t->resident, 1);
        point_of_transfer(w, a, p);
        return;
    }
    const struct tape_bytes *own = &w->tapes[a->chunk][a->kind];
    begin_action(w, a);
    for (int row = 0; row < w->chunks[a->chunk].tapes[a->kind].n; row++) {
        struct memory_point *p = &t->points[t->n++];
        *p = (struct memory_point){.action = i, .row = row};
        add(p->alive, t->resident, 1);
        add(p->alive, w->between, 1);
        add(p->alive, own->at[row], 1);
    }
    add(w->between, own->after, 1);
}

static size_t count_points(const struct chunk *chunks, const struct schedule *s) {
    size_t n = schedule_n_rows(s, chunks);
    for (int i = 0; i < s->n; i++) n += !action_is_compute(s->actions[i].kind);
    return n;
}

static enum status check_points(size_t n, const struct schedule *s) {
    if (n <= MEMORY_TIMELINE_POINTS) return OK;
    return FAIL(E_CONFIG,
                "a time line of %d microbatches has %zu rows, and the limit is %d; use a larger micro-batch or a "
                "smaller global-batch",
                s->n_microbatches, n, MEMORY_TIMELINE_POINTS);
}

static enum status count_tapes(const struct program *p, struct walk *w) {
    for (int k = 0; k < p->n_chunks; k++)
        for (enum tape_kind t = 0; t < N_TAPES; t++) TRY(count_tape(&w->chunks[k], t, &w->tapes[k][t]));
    return OK;
}

enum status memory_timeline_make(const struct program *p, const struct chunk *chunks, const struct schedule *s,
                                 const struct memory_plan *m, struct memory_timeline *out) {
    size_t n = count_points(chunks, s);
    *out = (struct memory_timeline){0};
    TRY(check_points(n, s));
    struct walk w = {.chunks = chunks, .tapes = calloc((size_t)p->n_chunks + 1, sizeof *w.tapes)};
    enum status status = OK;
    *out = (struct memory_timeline){.n_actions = s->n, .first = malloc(((size_t)s->n + 1) * sizeof *out->first),
                                    .points = malloc((n + 1) * sizeof *out->points)};
    if (!w.tapes || !out->first || !out->points)
        TRY_DONE(FAIL(E_MEMORY, "no memory for the time line of %d actions", s->n));
    TRY_DONE(count_tapes(p, &w));
    count_resident(p, m, out->resident);
    for (int i = 0; i < s->n; i++) walk_action(&w, s, i, out);
done:
    for (int k = 0; w.tapes && k < p->n_chunks; k++)
        for (enum tape_kind t = 0; t < N_TAPES; t++) free(w.tapes[k][t].at);
    free(w.tapes);
    return status;
}

void memory_timeline_fini(struct memory_timeline *t) {
    free(t->points);
    free(t->first);
    *t = (struct memory_timeline){0};
}

int64_t memory_timeline_peak(const struct memory_timeline *t, enum role role) {
    int64_t most = t->resident[role];
    for (int i = 0; i < t->n; i++)
        if (t->points[i].alive[role] > most) most = t->points[i].alive[role];
    return most;
}
