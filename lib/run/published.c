#include "lib/run/published.h"

#include <inttypes.h>
#include <stdio.h>

void published_name(const char *pattern, int64_t layer, int64_t expert, char out[PUBLISHED_NAME_MAX]) {
    int n = 0;
    for (const char *at = pattern; *at && n < PUBLISHED_NAME_MAX - 24; at++)
        if (*at == '%') n += snprintf(out + n, 24, "%" PRId64, *++at == 'd' ? layer : expert);
        else out[n++] = *at;
    out[n] = 0;
}

int published_shape(const struct published *row, const struct shape *ours, int64_t theirs[PUBLISHED_AXES]) {
    int n = 0;
    theirs[0] = 1;
    for (const char *c = row->axes; *c; c++)
        if (*c == ' ') theirs[++n] = 1;
        else theirs[n] *= shape_axis(ours, *c)->n;
    return n + 1;
}
