/* Shapes: counting, and finding an element's place in the global tensor. */
#include "lib/device/tensor.h"

#include <inttypes.h>
#include <stdio.h>

struct axis axis_part(const struct axis *a, int64_t parts, int64_t part) {
    struct axis x = *a;
    int64_t from = a->n / parts * part, turn = a->turn - from;
    x.n = a->n / parts;
    x.first = axis_global(a, from);
    bool turns = turn > 0 && turn < x.n;                             /* false: the part is within one of the two runs */
    x.turn = turns ? turn : 0;
    x.jump = turns ? a->jump : 0;
    return x;
}

struct axis axis_zigzag(char tag, int64_t global, int64_t parts, int64_t part) {
    struct axis x = axis_whole(tag, global);
    int64_t piece = global / (2 * parts);
    x.n = 2 * piece;
    x.first = part * piece;
    x.jump = (2 * parts - 2 - 2 * part) * piece;                     /* the last part's pieces are neighbors */
    x.turn = x.jump ? piece : 0;
    return x;
}

int64_t shape_n(const struct shape *s) {
    int64_t n = 1;
    for (int a = 0; a < s->n_axes; a++) n *= s->axis[a].n;
    return n;
}

int64_t shape_global_n(const struct shape *s) {
    int64_t n = 1;
    for (int a = 0; a < s->n_axes; a++) n *= s->axis[a].global;
    return n;
}

int64_t shape_global_index(const struct shape *s, int64_t i) {
    /* Peel off the fastest axis first; `stride` is the distance in the global tensor of one step along an axis. */
    int64_t index = 0, stride = 1;
    for (int a = s->n_axes - 1; a >= 0; a--) {
        const struct axis *axis = &s->axis[a];
        int64_t place = axis_global(axis, i % axis->n);
        if (place >= axis->global) return -1; /* padding */
        index += place * stride;
        i /= axis->n;
        stride *= axis->global;
    }
    return index;
}

const struct axis *shape_axis(const struct shape *s, char tag) {
    for (int a = 0; a < s->n_axes; a++)
        if (s->axis[a].tag == tag) return &s->axis[a];
    return NULL;
}

unsigned shape_cuts(const struct shape *s) {
    unsigned cuts = 0;
    for (int a = 0; a < s->n_axes; a++) cuts |= s->axis[a].cut;
    return cuts;
}

bool axis_same(const struct axis *a, const struct axis *b) {
    return a->tag == b->tag && a->n == b->n && a->first == b->first && a->global == b->global && a->turn == b->turn &&
           a->jump == b->jump;
}

bool shape_same(const struct shape *s, const struct shape *t) {
    bool same = s->n_axes == t->n_axes;
    for (int a = 0; same && a < s->n_axes; a++) same = axis_same(&s->axis[a], &t->axis[a]);
    return same;
}

static int axis_print(const struct axis *a, char *text, size_t size) {
    if (a->tag == '0' + a->n) return snprintf(text, size, "%c", a->tag); /* named by its length: 3, of q, k and v */
    if (!axis_is_sharded(a)) return snprintf(text, size, "%c %" PRId64, a->tag, a->n);
    return snprintf(text, size, "%c %" PRId64 "/%" PRId64 "@%" PRId64, a->tag, a->n, a->global, a->first);
}

void shape_print(const struct shape *s, char *text, size_t size) {
    char whole[MAX_AXES * 80 + 3]; /* three 64-bit numbers and punctuation an axis */
    size_t used = 0;
    whole[used++] = '(';
    for (int a = 0; a < s->n_axes; a++) {
        if (a > 0) used += (size_t)snprintf(whole + used, sizeof whole - used, ", ");
        used += (size_t)axis_print(&s->axis[a], whole + used, sizeof whole - used);
    }
    snprintf(whole + used, sizeof whole - used, ")");
    snprintf(text, size, "%s", whole);
}
