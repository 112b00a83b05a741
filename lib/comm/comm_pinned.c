/* Allocating pinned memory takes milliseconds, and may stop the GPU. So it is allocated once and kept, in a list for
 * each power of two. After the first step a training run takes all its pinned memory from these lists. */
#include "lib/comm/comm_device.h"

#include <stdlib.h>

enum { SMALLEST_LOG2 = 12, N_SIZES = 40 };   /* 4 KiB upward */

static struct pinned *kept[N_SIZES];

static int size_class(int64_t bytes) {
    int c = 0;
    while (((int64_t)1 << (SMALLEST_LOG2 + c)) < bytes && c < N_SIZES - 1) c++;
    return c;
}

enum status pinned_take(const struct device *device, int64_t bytes, struct pinned **out) {
    int c = size_class(bytes);
    *out = kept[c];
    if (*out) {
        kept[c] = (*out)->next;
        return OK;
    }
    struct pinned *fresh = malloc(sizeof *fresh);
    if (!fresh) return FAIL(E_MEMORY, "no memory to note a pinned buffer");
    *fresh = (struct pinned){.bytes = (int64_t)1 << (SMALLEST_LOG2 + c)};
    void *at;
    enum status status = device->pin(device, fresh->bytes, &at);
    if (status != OK) {
        free(fresh);
        return status;
    }
    fresh->at = at;
    *out = fresh;
    return OK;
}

void pinned_give(struct pinned *p) {
    if (!p) return;
    int c = size_class(p->bytes);
    p->next = kept[c];
    kept[c] = p;
}

void pinned_close(const struct device *device) {
    for (int c = 0; c < N_SIZES; c++)
        while (kept[c]) {
            struct pinned *p = kept[c];
            kept[c] = p->next;
            device->unpin(device, p->at);
            free(p);
        }
}
