#include "lib/run/versions.h"

#include "lib/base/integer.h"
#include <limits.h>

static enum status copy_weight(struct run *r, struct param *w, int slot) {
    const struct param_array *all = &w->arrays[ARRAY_WEIGHT];
    char *to = (char *)all->at + slot * all->stride;
    const void *from = w->weight;
    w->weight = to;
    return to == from ? OK : r->device->copy(r->device, to, from, param_array_bytes(all));
}

/* Copy all params' newest weights to this slot, and make it the newest. */
static enum status newest_to(struct run *r, int slot) {
    for (int i = 0; i < r->program.n_params; i++) {
        struct param *w = &r->program.params[i];
        if (w->present && w->arrays[ARRAY_WEIGHT].copies > 1) TRY(copy_weight(r, w, slot));
    }
    return OK;
}

enum status versions_begin_step(struct run *r) {
    const struct schedule *s = &r->schedule;
    if (!s->n_frames) return OK;
    int64_t steps = max64(1, r->flush_at - r->n_step), most = INT_MAX / s->n_microbatches;
    r->exec.n_begin = (int)min64(steps, most) * s->n_microbatches;
    if (r->exec.since_flush > 0) return OK;
    for (int slot = schedule_versions(s) - 1; slot >= 0; slot--) TRY(newest_to(r, slot));
    return OK;
}

enum status versions_begin_update(struct run *r) {
    int n = schedule_versions(&r->schedule);
    return n > 1 ? newest_to(r, (int)((r->exec.since_flush + 1) % n)) : OK;
}

enum status versions_end_step(struct run *r) {
    if (!r->schedule.n_frames) return OK;
    bool flushed = r->exec.n_begin <= r->schedule.n_microbatches;
    r->exec.since_flush = flushed ? 0 : r->exec.since_flush + 1;
    return flushed && schedule_versions(&r->schedule) > 1 ? newest_to(r, 0) : OK;
}

int64_t versions_steps_to_flush(const struct run *r) {
    if (!r->schedule.n_frames) return 0;
    return 1 + ceil_div(r->schedule.n_ahead, r->schedule.n_microbatches);
}
