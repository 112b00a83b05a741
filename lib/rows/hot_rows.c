#include "lib/rows/hot_rows.h"

#include "lib/rows/hot_store.h"
#include <stdlib.h>
#include <string.h>

enum { AWAY = -1, WANTED = -2 };         /* of place: not here; and on the list of those to be fetched */
#define NOBODY UINT32_MAX                /* of owner */

struct hot_table {
    const struct param *w;
    struct type ids;                     /* of a microbatch */
    int64_t n_rows, n_slots;
    int32_t *place;                      /* [n_rows] */
    uint32_t *owner, *held;              /* [n_slots]; held: the last time that its row was wanted, see now */
    bool *changed;                       /* [n_slots]: the store has an older row */
    struct hot_move *moves;              /* [hot_rows_of_step] */
    int64_t n_moves, most_moves, n_held; /* n_held: slots whose row is wanted now */
    uint32_t now;
    struct hot_store store;
    struct hot_traffic traffic;
};
struct hot_rows { int32_t *next_ids; int n; struct hot_table table[]; };

/* ---- sizes ---- */
int64_t hot_rows_of(const struct param *w) {
    const struct param_array *a = param_array(w, HOT_ROWS);
    return a ? a->n / w->type.shape.axis[2].n : 0;
}

static bool is_hot(const struct program *p, int i) { return p->params[i].present && hot_rows_of(&p->params[i]) > 0; }

static const struct type *ids_of(const struct program *p) { return &p->slots[p->data[DATA_TOKENS]].type; }

static int64_t rows_of(const struct param *w) { return w->type.shape.axis[0].n * w->type.shape.axis[1].n; }

int64_t hot_rows_of_step(const struct program *p, int param, int n_microbatches) {
    return min64(rows_of(&p->params[param]), n_microbatches * type_n(ids_of(p)));
}

static int64_t most_moves(const struct program *p, int i) {
    return hot_rows_of_step(p, i, param_records_of_step(&p->params[i]));
}

/* Where each array of a table begins in its part of the work arena. */
struct layout { int64_t place, owner, held, changed, moves, bytes; };
static struct layout layout_of(const struct program *p, int i) {
    const struct param *w = &p->params[i];
    int64_t n = rows_of(w), slots = hot_rows_of(w), number = (int64_t)sizeof(uint32_t);
    struct layout l = {.place = 0, .owner = arena_align(n * number)};
    l.held = l.owner + arena_align(slots * number);
    l.changed = l.held + arena_align(slots * number);
    l.moves = l.changed + arena_align(slots * (int64_t)sizeof(bool));
    l.bytes = l.moves + arena_align(most_moves(p, i) * (int64_t)sizeof(struct hot_move));
    return l;
}

int64_t hot_rows_work(const struct program *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->n_params; i++)
        if (is_hot(p, i)) bytes += layout_of(p, i).bytes;
    return bytes ? bytes + arena_align(type_bytes(ids_of(p))) : 0;
}

static int64_t row_bytes(const struct param *w) {
    return w->type.shape.axis[2].n * (int64_t)dtype_size(w->type.dtype);
}

static struct hot_window window_of(const struct program *p, int i, int64_t window_bytes) {
    const struct param *w = &p->params[i];
    if (w->weight_tier != TIER_DISK) return (struct hot_window){most_moves(p, i), 0};
    return hot_store_window(rows_of(w), row_bytes(w), most_moves(p, i), window_bytes);
}

int64_t hot_rows_window(const struct program *p, int64_t window_bytes) {
    int64_t pages = 0;
    for (int i = 0; i < p->n_params; i++)
        if (is_hot(p, i)) pages += window_of(p, i, window_bytes).pages;
    return pages * DISK_PAGE;
}

/* ---- making them ---- */
static void empty(struct hot_table *t) {
    for (int64_t row = 0; row < t->n_rows; row++) t->place[row] = AWAY;
    for (int64_t slot = 0; slot < t->n_slots; slot++) t->owner[slot] = NOBODY;
    memset(t->changed, 0, (size_t)t->n_slots * sizeof *t->changed);
}

static enum status make_table(struct run *r, int i, char *work, char **window, struct hot_table *t) {
    struct param *w = &r->program.params[i];
    const struct layout l = layout_of(&r->program, i);
    *t = (struct hot_table){.w = w, .ids = *ids_of(&r->program), .n_rows = rows_of(w), .n_slots = hot_rows_of(w),
                            .place = (int32_t *)(work + l.place), .owner = (uint32_t *)(work + l.owner),
                            .held = (uint32_t *)(work + l.held), .changed = (bool *)(work + l.changed),
                            .moves = (struct hot_move *)(work + l.moves), .most_moves = most_moves(&r->program, i)};
    t->store = (struct hot_store){.disk = w->weight_tier == TIER_DISK ? r->disk : NULL, .base = w->weight,
                                  .slots = param_array(w, HOT_ROWS)->at, .row_bytes = row_bytes(w), .window = *window,
                                  .size = window_of(&r->program, i, plan_window_bytes(&r->plan))};
    *window += t->store.size.pages * DISK_PAGE;
    w->hot_place = t->place;
    empty(t);
    TRY(r->device->clear(r->device, t->store.slots, t->n_slots * t->store.row_bytes));
    return hot_store_create(&t->store);
}

enum status hot_rows_create(struct run *r, void *work, void *window, struct hot_rows **out) {
    const struct program *p = &r->program;
    char *at = work, *pages = window;
    int n = 0;
    for (int i = 0; i < p->n_params; i++) n += is_hot(p, i);
    *out = NULL;
    if (n == 0) return OK;
    struct hot_rows *h = *out = calloc(1, sizeof *h + (size_t)n * sizeof *h->table);
    if (!h) return FAIL(E_MEMORY, "no memory for the caches of %d tables", n);
    int64_t window_bytes = hot_rows_window(p, plan_window_bytes(&r->plan));
    if (window_bytes) memset(window, 0, (size_t)window_bytes);
    for (int i = 0; i < p->n_params; i++) {
        if (!is_hot(p, i)) continue;
        TRY(make_table(r, i, at, &pages, &h->table[h->n++]));
        at += layout_of(p, i).bytes;
    }
    h->next_ids = (int32_t *)at;
    return OK;
}

void hot_rows_destroy(struct hot_rows **h) {
    for (int i = 0; *h && i < (*h)->n; i++) hot_store_destroy(&(*h)->table[i].store);
    free(*h);
    *h = NULL;
}

/* ---- which rows are wanted ---- */
static void hold(struct hot_table *t, int64_t slot) {
    t->traffic.wanted += t->held[slot] != t->now;
    t->n_held += t->held[slot] != t->now;
    t->held[slot] = t->now;
}

static void want(struct hot_table *t, int64_t row) {
    if (t->place[row] >= 0) hold(t, t->place[row]);
    if (t->place[row] != AWAY) return;
    t->place[row] = WANTED;
    t->moves[t->n_moves++] = (struct hot_move){row, -1, -1};
}

static void want_ids(struct hot_table *t, const int32_t *ids) {
    for (int64_t i = 0; i < type_n(&t->ids); i++) {
        int64_t row = rows_of_id(&t->ids, &t->w->type, i, ids[i]);
        if (row >= 0) want(t, row);
    }
}

/* ---- where they go: after all that are here are held ---- */
static void take_slot(struct hot_table *t, struct hot_move *m) {
    m->slot = m->in % t->n_slots;
    while (t->held[m->slot] == t->now) m->slot = (m->slot + 1) % t->n_slots;
    uint32_t before = t->owner[m->slot];
    if (before != NOBODY) t->place[before] = AWAY;
    if (t->changed[m->slot]) m->out = before;
    t->traffic.written += t->changed[m->slot];
    t->changed[m->slot] = false;
    t->owner[m->slot] = (uint32_t)m->in;
    t->place[m->in] = (int32_t)m->slot;
    hold(t, m->slot);
}

/* Take slots for up to `most` moves; the others are not made. */
static void take_slots(struct hot_table *t, int64_t most) {
    int64_t n = 0;
    for (; n < t->n_moves && n < most && t->n_held < t->n_slots; n++) take_slot(t, &t->moves[n]);
    for (int64_t i = n; i < t->n_moves; i++) t->place[t->moves[i].in] = AWAY;
    t->n_moves = n;
    t->traffic.fetched += n;
}

/* ---- what is wanted now ---- */
static void begin(struct hot_table *t) { t->now++, t->n_moves = t->n_held = 0; }

static enum status move_all(struct hot_table *t) {
    for (int64_t i = 0, n; i < t->n_moves; i += n) {
        n = min64(t->n_moves - i, t->store.size.moves);
        TRY(hot_store_start(&t->store, t->moves + i, n));
        TRY(hot_store_finish(&t->store));
    }
    return OK;
}

enum status hot_rows_need(struct hot_rows *h, const int32_t *ids) {
    for (int i = 0; h && i < h->n; i++) {
        struct hot_table *t = &h->table[i];
        TRY(hot_store_finish(&t->store));                            /* what was begun ahead */
        begin(t);
        want_ids(t, ids);
        take_slots(t, t->n_moves);
        TRY(move_all(t));
    }
    return OK;
}

static struct hot_table *table_of(struct hot_rows *h, const struct param *w) {
    for (int i = 0; h && i < h->n; i++)
        if (h->table[i].w == w) return &h->table[i];
    return NULL;
}

enum status hot_rows_need_to_update(struct hot_rows *h, const struct param *w, const struct rows *rows) {
    struct hot_table *t = table_of(h, w);
    if (!t) return OK;
    TRY(hot_store_finish(&t->store));
    begin(t);
    for (int64_t i = 0; i < rows->n; i++) want(t, rows->index[i].row);
    take_slots(t, t->n_moves);
    TRY(move_all(t));
    for (int64_t i = 0; i < rows->n; i++) t->changed[t->place[rows->index[i].row]] = true;
    return OK;
}

/* ---- ahead ---- */
int32_t *hot_rows_next_ids(const struct hot_rows *h) { return h ? h->next_ids : NULL; }

/* In addition to what is held: `now` stays. A row that is not yet wanted is not counted. */
enum status hot_rows_ahead(struct hot_rows *h, const int32_t *ids) {
    for (int i = 0; h && i < h->n; i++) {
        struct hot_table *t = &h->table[i];
        struct hot_traffic before = t->traffic;
        TRY(hot_store_finish(&t->store));
        t->n_moves = 0;
        want_ids(t, ids);
        take_slots(t, t->store.size.moves);
        t->traffic.wanted = before.wanted;
        t->traffic.ahead += t->n_moves;
        TRY(hot_store_start(&t->store, t->moves, t->n_moves));
    }
    return OK;
}

/* ---- the store is read, or changes ---- */
/* A slot is kept, and is as the store has it. */
static enum status write_back(struct hot_table *t) {
    TRY(hot_store_finish(&t->store));
    for (int64_t row = 0; row < t->n_rows;) {
        for (t->n_moves = 0; row < t->n_rows && t->n_moves < t->most_moves; row++) {
            int32_t slot = t->place[row];
            if (slot < 0 || !t->changed[slot]) continue;
            t->moves[t->n_moves++] = (struct hot_move){-1, row, slot};
            t->changed[slot] = false;
        }
        t->traffic.written += t->n_moves;
        TRY(move_all(t));
    }
    return hot_store_wait(&t->store);
}

enum status hot_rows_write_back(struct hot_rows *h) {
    for (int i = 0; h && i < h->n; i++) TRY(write_back(&h->table[i]));
    return OK;
}

enum status hot_rows_forget(struct hot_rows *h) {
    for (int i = 0; h && i < h->n; i++) {
        struct hot_table *t = &h->table[i];
        TRY(hot_store_finish(&t->store));
        TRY(hot_store_wait(&t->store));
        empty(t);
    }
    return OK;
}

struct hot_traffic hot_rows_traffic(const struct hot_rows *h) {
    struct hot_traffic sum = {0};
    for (int i = 0; h && i < h->n; i++) {
        const struct hot_traffic *t = &h->table[i].traffic;
        sum.wanted += t->wanted, sum.fetched += t->fetched, sum.ahead += t->ahead, sum.written += t->written;
    }
    return sum;
}
