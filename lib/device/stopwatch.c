#include "lib/device/stopwatch.h"

#include "lib/base/grow.h"
#include <stdlib.h>

struct piece { struct device_mark from, to; double *seconds; };

/* Pieces 0 .. n-1 are in flight, in the order of the stream. The pieces after them are free, and their events are
 * reused. */
struct stopwatch { const struct device *device; struct piece *pieces; int n, made; };

enum status stopwatch_create(const struct device *device, struct stopwatch **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) return FAIL(E_MEMORY, "no memory for a stopwatch");
    (*out)->device = device;
    return OK;
}

void stopwatch_destroy(struct stopwatch **t) {
    for (int i = 0; *t && i < (*t)->made; i++) {
        (*t)->device->mark_fini((*t)->device, &(*t)->pieces[i].from);
        (*t)->device->mark_fini((*t)->device, &(*t)->pieces[i].to);
    }
    if (*t) free((*t)->pieces);
    free(*t);
    *t = NULL;
}

enum status stopwatch_start(struct stopwatch *t) {
    if (t->n == t->made) {
        t->pieces = table_grow(t->pieces, t->made, sizeof *t->pieces);
        t->pieces[t->made++] = (struct piece){0};
    }
    return t->device->mark_timed(t->device, NULL, &t->pieces[t->n].from);
}

enum status stopwatch_stop(struct stopwatch *t, double *seconds) {
    struct piece *p = &t->pieces[t->n++];
    p->seconds = seconds;
    return t->device->mark_timed(t->device, NULL, &p->to);
}

static void reverse(struct piece *p, int first, int end) {
    for (; first < --end; first++) {
        struct piece x = p[first];
        p[first] = p[end];
        p[end] = x;
    }
}

enum status stopwatch_collect(struct stopwatch *t) {
    int ended = 0;
    for (bool done = true; ended < t->n; ended++) {
        const struct piece *p = &t->pieces[ended];
        double seconds;
        TRY(t->device->mark_done(t->device, &p->to, &done));
        if (!done) break;
        TRY(t->device->mark_seconds(t->device, &p->from, &p->to, &seconds));
        *p->seconds += seconds;
    }
    /* the ended pieces go to the end: three reversals are a rotation */
    reverse(t->pieces, 0, ended);
    reverse(t->pieces, ended, t->made);
    reverse(t->pieces, 0, t->made);
    t->n -= ended;
    return OK;
}
