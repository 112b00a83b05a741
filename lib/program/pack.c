/* Gives offsets to buffers with lifetimes (interval packing): for the rows of a tape and the frames of a schedule.
 *
 * First fit, biggest first; among equals the earliest first. For intervals of one size this is optimal (it is interval
 * coloring, greedy by start). For mixed sizes it is a heuristic, and `floor` is the lower bound.
 *
 * A step may have a million frames, so comparing all pairs would take too long:
 *   the biggest   come first. One sweep over the time line gives each of them the lowest free slot: n log n
 *   the others    each is compared only with the intervals that overlap it in time, found by a tree over the starts */
#include "lib/program/lower.h"

#include <limits.h>
#include <stdlib.h>

static int bigger_then_earlier(const void *a, const void *b) {
    const struct interval *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->from != y->from) return x->from - y->from;
    return x->id - y->id;
}

/* ---- the time line of begins and ends. Both ends are included, so at equal times begins come first ---- */
struct edge { int time, i; bool ends; };

static int earlier(const void *a, const void *b) {
    const struct edge *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->ends != y->ends) return x->ends ? 1 : -1;
    return x->i - y->i;
}

struct pack {
    struct interval *x;
    int n, n_biggest;
    enum device_kind on;
    struct edge *edges;                  /* [2 n] the intervals' begins and ends, in order of time */
    int *by_start, *start;               /* [n] intervals in the order of their starts, and those starts */
    int *latest, n_leaves;               /* the tree: the root is [1], the leaf of by_start[k] is [n_leaves + k]. A
                                          * node has the latest `to` of the placed intervals below it; INT_MIN if
                                          * there are none */
    int *free_slots, n_free;             /* a heap of free slots, the lowest one first */
    struct interval **met;               /* placed intervals that overlap in time with the current one */
    int n_met;
    struct packing *result;
};

static enum status pack_init(struct pack *p, struct interval *x, int n, struct packing *result) {
    *p = (struct pack){.x = x, .n = n, .n_leaves = 1, .result = result};
    while (p->n_leaves < n) p->n_leaves *= 2;
    p->edges = malloc(2 * (size_t)n * sizeof *p->edges);
    p->by_start = malloc((size_t)n * sizeof *p->by_start);
    p->start = malloc((size_t)n * sizeof *p->start);
    p->free_slots = malloc((size_t)n * sizeof *p->free_slots);
    p->met = malloc((size_t)n * sizeof *p->met);
    p->latest = malloc(2 * (size_t)p->n_leaves * sizeof *p->latest);
    if (!p->edges || !p->by_start || !p->start || !p->free_slots || !p->met || !p->latest)
        return FAIL(E_MEMORY, "no memory to pack %d intervals", n);
    for (int i = 0; i < 2 * p->n_leaves; i++) p->latest[i] = INT_MIN;
    return OK;
}

static void pack_fini(struct pack *p) {
    free(p->edges);
    free(p->by_start);
    free(p->start);
    free(p->free_slots);
    free(p->met);
    free(p->latest);
}

static void draw_time_line(struct pack *p) {
    int n_starts = 0;
    for (int i = 0; i < p->n; i++) {
        p->edges[2 * i] = (struct edge){p->x[i].from, i, false};
        p->edges[2 * i + 1] = (struct edge){p->x[i].to, i, true};
    }
    qsort(p->edges, 2 * (size_t)p->n, sizeof *p->edges, earlier);
    for (int e = 0; e < 2 * p->n; e++)
        if (!p->edges[e].ends) {
            p->start[p->edges[e].i] = n_starts;
            p->by_start[n_starts++] = p->edges[e].i;
        }
}

static void note_place(struct pack *p, int i) {
    int64_t end = p->x[i].offset + p->x[i].bytes;
    if (end > p->result->extent) p->result->extent = end;
    for (int node = p->n_leaves + p->start[i]; node > 0 && p->latest[node] < p->x[i].to; node /= 2) {
        p->latest[node] = p->x[i].to;
        p->result->looks++;
    }
}

/* ---- the biggest ---- */
static void swap(int *a, int *b) {
    int was = *a;
    *a = *b;
    *b = was;
}

static void give_slot(struct pack *p, int slot) {
    int *heap = p->free_slots - 1, at = ++p->n_free; /* heap[1] is the lowest; children of k: 2k, 2k + 1 */
    heap[at] = slot;
    for (; at > 1 && heap[at] < heap[at / 2]; at /= 2, p->result->looks++) swap(&heap[at], &heap[at / 2]);
}

static int take_slot(struct pack *p) {
    int *heap = p->free_slots - 1, lowest = heap[1];
    heap[1] = heap[p->n_free--];
    for (int at = 1, least; 2 * at <= p->n_free; at = least, p->result->looks++) {
        least = 2 * at + (2 * at < p->n_free && heap[2 * at + 1] < heap[2 * at]);
        if (heap[at] <= heap[least]) break;
        swap(&heap[at], &heap[least]);
    }
    return lowest;
}

/* Sweep over the time line: give the biggest intervals their slots, and find the most bytes alive at one time. */
static void sweep(struct pack *p) {
    int64_t slot_bytes = arena_align_on(p->on, p->x[0].bytes), alive = 0;
    int n_slots = 0;
    for (int e = 0; e < 2 * p->n; e++) {
        struct interval *x = &p->x[p->edges[e].i];
        bool ends = p->edges[e].ends, biggest = p->edges[e].i < p->n_biggest;
        alive += ends ? -x->bytes : x->bytes;
        if (alive > p->result->floor) p->result->floor = alive;
        if (biggest && ends) give_slot(p, (int)(slot_bytes ? x->offset / slot_bytes : 0));
        if (biggest && !ends) x->offset = (p->n_free ? take_slot(p) : n_slots++) * slot_bytes;
    }
}

/* ---- the others ---- */
/* Collect the intervals below a tree node that have a place and overlap x in time. by_start[first] is the node's first
 * interval. */
static void meet(struct pack *p, const struct interval *x, int node, int first, int n_leaves) {
    p->result->looks++;
    if (p->latest[node] < x->from || p->x[p->by_start[first]].from > x->to) return;
    if (n_leaves == 1) {
        p->met[p->n_met++] = &p->x[p->by_start[first]];
        return;
    }
    meet(p, x, 2 * node, first, n_leaves / 2);
    meet(p, x, 2 * node + 1, first + n_leaves / 2, n_leaves / 2);
}

static int lower(const void *a, const void *b) {
    const struct interval *x = *(struct interval *const *)a, *y = *(struct interval *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The lowest offset at which x overlaps no placed interval. */
static int64_t first_fit(struct pack *p, const struct interval *x) {
    int64_t at = 0;
    p->n_met = 0;
    meet(p, x, 1, 0, p->n_leaves);
    qsort(p->met, (size_t)p->n_met, sizeof *p->met, lower);
    for (int i = 0; i < p->n_met && p->met[i]->offset < at + x->bytes; i++) {
        int64_t end = arena_align_on(p->on, p->met[i]->offset + p->met[i]->bytes);
        if (at < end) at = end;
    }
    return at;
}

enum status interval_pack(struct interval *x, int n, enum device_kind on, struct packing *out) {
    struct pack p;
    *out = (struct packing){0};
    if (n == 0) return OK;
    enum status status = pack_init(&p, x, n, out);
    p.on = on;
    if (status == OK) {
        qsort(x, (size_t)n, sizeof *x, bigger_then_earlier);
        while (p.n_biggest < n && x[p.n_biggest].bytes == x[0].bytes) p.n_biggest++;
        draw_time_line(&p);
        sweep(&p);
        for (int i = 0; i < n; i++) {
            if (i >= p.n_biggest) x[i].offset = first_fit(&p, &x[i]);
            note_place(&p, i);
        }
    }
    pack_fini(&p);
    return status;
}
