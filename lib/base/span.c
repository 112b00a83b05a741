#include "lib/base/span.h"

#include <limits.h>
#include <stdlib.h>

enum status spans_init(struct spans *s, int64_t capacity) {
    *s = (struct spans){0};
    if (capacity > INT_MAX || (uint64_t)capacity > SIZE_MAX / sizeof *s->span)
        return FAIL(E_MEMORY, "%lld spans are more than one recorder can hold; record fewer steps",
                    (long long)capacity);
    s->span = malloc((size_t)capacity * sizeof *s->span + 1);
    if (!s->span) return FAIL(E_MEMORY, "no memory for %lld spans; record fewer steps", (long long)capacity);
    memset(s->span, 0xff, (size_t)capacity * sizeof *s->span);       /* touch the pages now, or the first recorded
                                                                      * steps pay for the page faults */
    s->capacity = (int)capacity;
    spans_clear(s);
    return OK;
}

void spans_fini(struct spans *s) {
    free(s->span);
    *s = (struct spans){0};
}

void spans_clear(struct spans *s) {
    s->n = 0;
    s->dropped = 0;
    s->now.step = -1;
    spans_outside(s);
}
