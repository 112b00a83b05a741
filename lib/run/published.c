#include "lib/run/published.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void published_name(const char *pattern, int64_t layer, int64_t expert, char out[PUBLISHED_NAME_MAX]) {
    int n = 0;
    for (const char *at = pattern; *at && n < PUBLISHED_NAME_MAX - 24; at++)
        if (*at == '%') n += snprintf(out + n, 24, "%" PRId64, *++at == 'd' ? layer : expert);
        else out[n++] = *at;
    out[n] = 0;
}

static bool matches(const char *pattern, const char *name, int *layer) {
    const char *number = strstr(pattern, "%d");
    *layer = -1;
    if (!number) return !strcmp(pattern, name);
    size_t before = (size_t)(number - pattern);
    int n = 0;
    if (strncmp(pattern, name, before) != 0 || sscanf(name + before, "%d%n", layer, &n) != 1) return false;
    return !strcmp(number + 2, name + before + n);
}

const struct published *published_find(const struct published *row, const char *ours, int *layer) {
    for (; row && row->ours; row++)
        if (matches(row->ours, ours, layer)) return row;
    return NULL;
}

int published_shape(const struct published *row, const struct shape *ours, int64_t theirs[PUBLISHED_AXES]) {
    int n = 0;
    theirs[0] = 1;
    for (const char *c = row->axes; *c; c++)
        if (*c == ' ') theirs[++n] = 1;
        else if (shape_axis(ours, *c)) theirs[n] *= shape_axis(ours, *c)->n;   /* a gain may be of a head alone */
    return n + 1;
}

int published_order(const struct published *row, const struct shape *ours, int axis[MAX_AXES]) {
    int n = 0, used = 0;                     /* bits: a square matrix, "C C", has two axes of one tag */
    bool same = true;
    for (const char *c = row->axes; *c; c++)
        for (int k = 0; k < ours->n_axes; k++)
            if (ours->axis[k].tag == *c && !(used >> k & 1)) {
                same &= n == 0 || k > axis[n - 1];
                used |= 1 << k, axis[n++] = k;
                break;
            }
    return same ? 0 : n;
}

/* Axes in the order of `to`: their lengths, and how far apart neighbors are in `from`. */
struct walk {
    int n;
    int64_t length[MAX_AXES], stride[MAX_AXES];
};

static void copy(const struct walk *w, int axis, char **to, const char *from, int64_t bytes) {
    if (axis == w->n) {
        memcpy(*to, from, (size_t)bytes), *to += bytes;
        return;
    }
    for (int64_t i = 0; i < w->length[axis]; i++) copy(w, axis + 1, to, from + i * w->stride[axis], bytes);
}

void published_permute(const struct published *row, const struct shape *ours, bool theirs, void *to, const void *from,
                       int64_t bytes) {
    int order[2][MAX_AXES], n = published_order(row, ours, order[1]), kept = 0;      /* of our memory; of theirs */
    int64_t apart[MAX_AXES], step = bytes;
    for (int i = 0; i < ours->n_axes; i++)
        if (strchr(row->axes, ours->axis[i].tag)) order[0][kept++] = i;
    struct walk w = {.n = n};
    for (int i = n - 1; i >= 0; i--) {
        int axis = order[theirs][i];
        apart[axis] = step, step *= ours->axis[axis].n;
    }
    for (int i = 0; i < n; i++) {
        int axis = order[!theirs][i];
        w.length[i] = ours->axis[axis].n, w.stride[i] = apart[axis];
    }
    char *at = to;
    copy(&w, 0, &at, from, bytes);
}
