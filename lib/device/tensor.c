/* Shapes: counting, and finding an element's place in the global tensor. */
#include "lib/device/tensor.h"

#include <inttypes.h>
#include <stdio.h>

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
    /* Peel off the fastest axis first; `stride` is what one step along an axis is worth in the global tensor. */
    int64_t index = 0, stride = 1;
    for (int a = s->n_axes - 1; a >= 0; a--) {
        const struct axis *axis = &s->axis[a];
        int64_t place = axis->first + i % axis->n;
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

bool shape_same(const struct shape *s, const struct shape *t) {
    if (s->n_axes != t->n_axes) return false;
    for (int a = 0; a < s->n_axes; a++) {
        const struct axis *x = &s->axis[a], *y = &t->axis[a];
        if (x->tag != y->tag || x->n != y->n || x->first != y->first || x->global != y->global) return false;
    }
    return true;
}

static int axis_print(const struct axis *a, char *text, size_t size) {
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
