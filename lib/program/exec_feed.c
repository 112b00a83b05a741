/* Copies batches to the device.
 *
 * The host writes a microbatch into pinned memory and queues the copy, which the compute stream may reach milliseconds
 * later. So the host reads the next batches from the file while the GPU works on earlier ones. A slot may be written
 * again when the mark after its copy is done; if there is a slot for every microbatch of a step, the host never waits.
 *
 * On the CPU the hooks write straight into the program's values. */
#include "lib/program/exec_feed.h"

#include <stdlib.h>

struct feed {
    const struct device *device;
    int64_t begin[N_DATA + 1];           /* offset of each kind in a slot, in bytes; the last entry: the slot's size */
    int n_slots, next;
    struct { char *pinned; struct device_mark copied; } slot[FEED_SLOTS];
};

static void lay_out(struct feed *f, const struct program *p) {
    for (int d = 0; d < N_DATA; d++)
        f->begin[d + 1] = f->begin[d] + (p->data[d] >= 0 ? type_bytes(&p->slots[p->data[d]].type) : 0);
}

enum status feed_create(const struct device *device, const struct program *p, int n_microbatches, struct feed **out) {
    struct feed *f = *out = calloc(1, sizeof *f);
    if (!f) return FAIL(E_MEMORY, "no memory to feed %s with", device->name);
    f->device = device;
    lay_out(f, p);
    if (device->kind == DEVICE_CPU || f->begin[N_DATA] == 0) return OK;
    int wanted = n_microbatches + 1 < FEED_SLOTS ? n_microbatches + 1 : FEED_SLOTS;
    for (; f->n_slots < wanted; f->n_slots++) {
        void *pinned;
        TRY(device->pin(device, f->begin[N_DATA], &pinned));
        f->slot[f->n_slots].pinned = pinned;
    }
    return OK;
}

void feed_destroy(struct feed **feed) {
    struct feed *f = *feed;
    for (int i = 0; f && i < f->n_slots; i++) {
        f->device->mark_fini(f->device, &f->slot[i].copied);
        f->device->unpin(f->device, f->slot[i].pinned);
    }
    free(f);
    *feed = NULL;
}

enum status feed_microbatch(struct feed *f, const struct exec_hooks *hooks, int microbatch, void *const data[N_DATA]) {
    const struct device *d = f->device;
    int i = d->kind == DEVICE_CPU ? 0 : f->next++ % f->n_slots;
    int32_t *to[N_DATA];
    for (int k = 0; k < N_DATA; k++)
        to[k] = (int32_t *)(d->kind == DEVICE_CPU || !data[k] ? data[k] : f->slot[i].pinned + f->begin[k]);
    if (d->kind == DEVICE_CPU) return hooks->fetch(hooks->self, microbatch, to);
    TRY(comm_wait_device(&f->slot[i].copied, "the copy of a batch"));
    TRY(hooks->fetch(hooks->self, microbatch, to));
    for (int k = 0; k < N_DATA; k++)
        if (data[k]) TRY(d->upload_start(d, data[k], to[k], f->begin[k + 1] - f->begin[k]));
    return d->mark_set(d, &f->slot[i].copied);
}
