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

bool published_is_transposed(const struct published *row, const struct shape *ours) {
    return strchr(row->axes, ' ') && row->axes[strlen(row->axes) - 1] != ours->axis[ours->n_axes - 1].tag;
}
