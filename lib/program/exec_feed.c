/* Batches on their way to the device.
 *
 * The host writes a microbatch into pinned memory and queues the copy; the compute stream makes it when it gets there,
 * which may be milliseconds later. So the host reads the next batches from the file while the GPU works on earlier
 * ones: it is ahead of the device by as much as it has queued. A slot may be written again when the mark after its
 * copy is done; with a slot for every microbatch of a step that is always long ago, and no one waits.
 *
 * On the CPU the hooks write straight into the program's values. */
#include "lib/program/exec_feed.h"

#include <inttypes.h>
#include <stdlib.h>

struct feed {
    const struct device *device;
    int64_t bytes;                       /* of tokens, and of targets */
    int n_slots, next;
    struct { char *pinned; struct device_mark copied; } slot[FEED_SLOTS];
};

static int64_t slot_bytes(const struct program *p) {
    int slot = p->tokens >= 0 ? p->tokens : p->targets;
    return slot >= 0 ? type_bytes(&p->slots[slot].type) : 0;
}

enum status feed_create(const struct device *device, const struct program *p, int n_microbatches, struct feed **out) {
    struct feed *f = *out = calloc(1, sizeof *f);
    if (!f) return FAIL(E_MEMORY, "no memory to feed %s with", device->name);
    f->device = device;
    f->bytes = slot_bytes(p);
    if (device->kind == DEVICE_CPU || f->bytes == 0) return OK;
    int wanted = n_microbatches + 1 < FEED_SLOTS ? n_microbatches + 1 : FEED_SLOTS;
    for (; f->n_slots < wanted; f->n_slots++) {
        void *pinned;
        TRY(device->pin(device, 2 * f->bytes, &pinned));
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

enum status feed_microbatch(struct feed *f, const struct exec_hooks *hooks, int microbatch, void *tokens,
                            void *targets) {
    const struct device *d = f->device;
    if (d->kind == DEVICE_CPU) return hooks->fetch(hooks->self, microbatch, tokens, targets);
    int i = f->next++ % f->n_slots;
    char *pinned_tokens = f->slot[i].pinned, *pinned_targets = pinned_tokens + f->bytes;
    TRY(comm_wait_device(&f->slot[i].copied, "the copy of a batch"));
    TRY(hooks->fetch(hooks->self, microbatch, tokens ? (int32_t *)pinned_tokens : NULL,
                     targets ? (int32_t *)pinned_targets : NULL));
    if (tokens) TRY(d->upload_start(d, tokens, pinned_tokens, f->bytes));
    if (targets) TRY(d->upload_start(d, targets, pinned_targets, f->bytes));
    return d->mark_set(d, &f->slot[i].copied);
}
