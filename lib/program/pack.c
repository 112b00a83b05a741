/* Packing intervals of time into bytes. Used for the rows of a tape and for the frames of a schedule.
 *
 * First fit, biggest first; among equals the earliest first. For intervals of one size this is optimal (it is interval
 * colouring, greedy by start); for mixed sizes it is a heuristic, and `floor` says how far from the bound it ended. */
#include "lib/program/lower.h"

#include <stdlib.h>

static bool overlap_in_time(const struct interval *a, const struct interval *b) {
    return a->from <= b->to && b->from <= a->to;
}

static int bigger_then_earlier(const void *a, const void *b) {
    const struct interval *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->from != y->from) return x->from - y->from;
    return x->id - y->id;
}

/* The lowest offset at which x[i] meets none of the already placed x[0..i). */
static int64_t first_fit(const struct interval *x, int i) {
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < i; j++) {
            if (!overlap_in_time(&x[i], &x[j])) continue;
            int64_t end = arena_align(x[j].offset + x[j].bytes);
            if (at < end && x[j].offset < at + x[i].bytes) {
                at = end;
                moved = true;
            }
        }
    }
    return at;
}

/* Bytes alive at one moment; the maximum over all moments is reached where some interval starts. */
static int64_t alive_at(const struct interval *x, int n, int moment) {
    int64_t bytes = 0;
    for (int j = 0; j < n; j++)
        if (x[j].from <= moment && moment <= x[j].to) bytes += x[j].bytes;
    return bytes;
}

int64_t interval_pack(struct interval *x, int n, int64_t *floor) {
    int64_t extent = 0;
    *floor = 0;
    qsort(x, (size_t)n, sizeof *x, bigger_then_earlier);
    for (int i = 0; i < n; i++) {
        x[i].offset = first_fit(x, i);
        if (x[i].offset + x[i].bytes > extent) extent = x[i].offset + x[i].bytes;
        int64_t alive = alive_at(x, n, x[i].from);
        if (alive > *floor) *floor = alive;
    }
    return extent;
}
