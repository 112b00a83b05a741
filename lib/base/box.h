/* Boxes of an array: along each axis a run of its elements. Arrays are row-major. */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { BOX_AXES = 4, BOX_TEXT_MAX = BOX_AXES * 64 + 8 };

/* Along each axis `n` elements from `first`, of a whole of `of`. */
struct box { int n_axes; int64_t of[BOX_AXES], first[BOX_AXES], n[BOX_AXES]; };

/** The number of the box's elements. */
static inline int64_t box_n(const struct box *b) {
    int64_t n = 1;
    for (int a = 0; a < b->n_axes; a++) n *= b->n[a];
    return n;
}

/** The box of the whole array. */
static inline struct box box_whole(const struct box *b) {
    struct box whole = {.n_axes = b->n_axes};
    for (int a = 0; a < b->n_axes; a++) whole.of[a] = whole.n[a] = b->of[a];
    return whole;
}

/** The number of the whole array's elements. */
static inline int64_t box_whole_n(const struct box *b) {
    struct box whole = box_whole(b);
    return box_n(&whole);
}

/** The index, in the whole array, of the box's i-th element. */
static inline int64_t box_place(const struct box *b, int64_t i) {
    int64_t place = 0, stride = 1;
    for (int a = b->n_axes - 1; a >= 0; i /= b->n[a], stride *= b->of[a--])
        place += (b->first[a] + i % b->n[a]) * stride;
    return place;
}

/** "(8, 2/4@2)": its shape, and of an axis of which it has a part: elements/all@first. @return out */
static inline const char *box_text(const struct box *b, char out[BOX_TEXT_MAX]) {
    int n = snprintf(out, BOX_TEXT_MAX, "(");
    for (int a = 0; a < b->n_axes; a++) {
        bool all = b->first[a] == 0 && b->n[a] == b->of[a];
        n += snprintf(out + n, BOX_TEXT_MAX - (size_t)n, "%s%" PRId64, a ? ", " : "", b->n[a]);
        if (!all) n += snprintf(out + n, BOX_TEXT_MAX - (size_t)n, "/%" PRId64 "@%" PRId64, b->of[a], b->first[a]);
    }
    snprintf(out + n, BOX_TEXT_MAX - (size_t)n, ")");
    return out;
}
