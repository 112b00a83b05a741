/* All-gathers of weights from their owners.
 *
 * Idea: a block's weights are gathered a block ahead, while the block before computes. PARAM_AHEAD starts a
 * gather, PARAM_NEEDED waits for it.
 *
 *   stages 1, 2   the first forward after an update, of a step or of an evaluation, gathers the weight once, in place.
 *                 Between steps nothing is in flight
 *   stage 3       each forward and each backward gathers into a buffer, which is freed after the block. With second
 *                 shards (zero_second.c) backward gathers within a node. With a codec, codes are gathered
 *                 (zero_quantized.c)
 *
 * An asynchronous pipeline keeps versions of weights, and its next forward may use old ones, so there the update itself
 * gathers. A weight shard in host memory or in a file is first copied to the device; the rank waits for a file's read.
 *
 * What breaks: a forward that begins before its gather ends, or reads old weights; a gather that the bill omits. */
#include "zero/zero_gather.h"

#include "lib/base/integer.h"
#include "zero/zero.h"
#include "zero/zero_second.h"
#include <stdlib.h>
#include <string.h>

static int64_t shard_bytes(const struct param *w) { return w->shard_n * (int64_t)dtype_size(w->type.dtype); }

/* ---- cost ---- */
/* Gathers of each param per step: one at stages 1 and 2, one per PARAM_AHEAD at stage 3. second: those that gather
 * second shards. */
struct gathers { int64_t first, second; };
static void count_gathers(const struct plan *plan, const struct compiled *c, struct gathers *n) {
    const struct program *p = c->program;
    bool sharded = zero_options(plan)->stage == 3;
    for (int i = 0; i < p->n_params; i++) n[i].first = !sharded && param_is_stored(&p->params[i]);
    struct row_walk at = {0};
    for (const struct row *r; sharded && (r = schedule_next_row(c->schedule, c->chunks, &at));)
        if (r->kind == ROW_PARAM_AHEAD)
            (*(zero_second_serves(&p->params[r->id], at.action->kind == ACTION_F) ? &n[r->id].second
                                                                                  : &n[r->id].first))++;
}

static bool gathers_at_once(const struct schedule *s) { return s->n_frames > 0; }

static enum exchange_when gathers_when(int stage, const struct schedule *s) {
    if (stage == 3) return BEHIND_BLOCK;
    return gathers_at_once(s) ? AT_END : BEHIND_FORWARD;
}

static struct exchange gather_of(const struct param *w, enum mesh_axis axis) {
    return (struct exchange){.axis = axis, .op = COMM_ALL_GATHER, .count = w->padded_n, .dtype = w->type.dtype};
}

enum status zero_gather_bill(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    const struct program *p = c->program;
    const struct codec codec = zero_quantized_codec(plan);
    enum exchange_when when = gathers_when(zero_options(plan)->stage, c->schedule);
    struct gathers *n = calloc((size_t)p->n_params + 1, sizeof *n);
    if (!n) return FAIL(E_MEMORY, "no memory for a table of %d params", p->n_params);
    count_gathers(plan, c, n);
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        if (w->weight_tier == TIER_DISK) bill->disk_read_bytes += n[i].first * round_up(shard_bytes(w), DISK_PAGE);
        struct exchange first = gather_of(w, w->shard_axis), second = gather_of(w, zero_second_axis(w, &p->place));
        if (zero_quantized_bytes(&codec, p, w)) first = zero_quantized_exchange(&codec, p, w);
        first.times = n[i].first, second.times = n[i].second, first.when = second.when = when;
        if (n[i].first) bill_exchange(bill, &p->place, first);
        if (n[i].second) bill_exchange(bill, &p->place, second);
    }
    bill->technique_comm_bytes += zero_quantized_room_bytes(&codec, p);
    free(n);
    return OK;
}

/* ---- events ---- */
/* Read a shard from the file to `place`; to a GPU through the update's window in host memory, which is idle then. */
static enum status read_shard(struct run *r, char *place, const char *own, int64_t bytes) {
    const struct device *disk = run_tier_device(r, TIER_DISK);
    const struct arena *window = &r->arenas[TIER_HOST][ROLE_WORK];
    if (r->device->kind == DEVICE_CPU) return disk->download(disk, place, own, bytes);
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = min64(bytes - done, window->bytes / DISK_PAGE * DISK_PAGE);
        TRY(disk->download(disk, window->base, own + done, n));
        TRY(comm_wait_queued(r->device, "what comes before a shard from the file"));
        TRY(r->device->upload(r->device, place + done, window->base, n));
    }
    return OK;
}

/* Copy an offloaded shard to its offset in the whole weight, where the gather reads it. */
static enum status bring_up(struct run *r, const struct param *w, char *whole, const char **own) {
    int64_t bytes = shard_bytes(w);
    char *place = whole + mesh_index(w->shard_axis, &r->plan.place) * bytes;
    if (w->weight_tier == TIER_DISK) TRY(read_shard(r, place, *own, bytes));
    else TRY(r->device->upload_start(r->device, place, *own, bytes));
    *own = place;
    return OK;
}

/* On a CPU, a gather can read a shard that is in host memory. */
static bool must_be_brought_up(const struct run *r, const struct param *w) {
    return w->weight_tier == TIER_DISK || (w->weight_tier == TIER_HOST && r->device->kind != DEVICE_CPU);
}

static enum status gather_start(struct run *r, struct zero_gather *z, int param, void *whole) {
    const struct param *w = &r->program.params[param];
    const char *own = w->weight;
    if (w->weight_residence == RESIDENT_WHOLE) own += w->own_first * (int64_t)dtype_size(w->type.dtype);
    if (must_be_brought_up(r, w)) TRY(bring_up(r, w, whole, &own));
    if (zero_quantized_bytes(&z->quantized.codec, &r->program, w))
        return zero_quantized_start(&z->quantized, &r->program, w, r->mesh.group[w->shard_axis], own, whole,
                                    &z->gathers[param]);
    return comm_all_gather_start(r->mesh.group[w->shard_axis], own, whole, w->shard_n, w->type.dtype,
                                 &z->gathers[param]);
}

/* The param that stores the weight: itself, or the param of which it is a further gradient (--sums fixed). */
static int stored_param(const struct run *r, int param) {
    int stored = r->program.params[param].gradient_of - 1;
    return stored < 0 ? param : stored;
}

static enum status param_ahead(struct run *r, void *self, const struct event *e) {
    struct zero_gather *z = self;
    const struct param *w = &r->program.params[e->param];
    if (zero_second_serves(w, e->forward)) {
        const struct group *near = r->mesh.group[zero_second_axis(w, &r->plan.place)];
        const struct param_array *second = zero_second_of(w);
        return comm_all_gather_start(near, second->at, e->buffer, second->n, w->type.dtype, &z->gathers[e->param]);
    }
    if (w->weight_residence == RESIDENT_OWN) return gather_start(r, z, e->param, e->buffer);
    int param = stored_param(r, e->param);
    if (!z->stale[param]) return OK;
    z->stale[param] = false;
    return gather_start(r, z, param, e->buffer);
}

static enum status param_needed(struct run *r, void *self, const struct event *e) {
    struct zero_gather *z = self;
    const struct param *w = &r->program.params[e->param];
    bool whole = w->weight_residence == RESIDENT_WHOLE;
    TRY(comm_wait(&z->gathers[whole ? stored_param(r, e->param) : e->param]));
    if (!zero_second_serves(w, e->forward) && zero_quantized_bytes(&z->quantized.codec, &r->program, w))
        zero_quantized_decode(&z->quantized, &r->program, w, e->buffer);
    return e->forward ? zero_second_keep(r, w, e->buffer) : OK;
}

/* In tests, fill the shards of other ranks with NaN, so that a read before the gather shows. */
static enum status paint_others(struct run *r, const struct param *w) {
    int64_t size = (int64_t)dtype_size(w->type.dtype), end = w->own_first + w->shard_n;
    const struct arena *weights = &r->arenas[TIER_DEVICE][ROLE_PARAM];
    if (!r->exec.paint) return OK;
    TRY(arena_paint(weights, w->weight, w->own_first * size));
    return arena_paint(weights, (char *)w->weight + end * size, (w->padded_n - end) * size);
}

/* Gather all stale weights at once, each in place. */
static enum status gather_stale(struct run *r, struct zero_gather *z) {
    int n = r->program.n_params;
    for (int i = 0; i < n; i++)
        if (z->stale[i]) TRY(gather_start(r, z, i, r->program.params[i].weight));
    for (int i = 0; i < n; i++) TRY(comm_wait(&z->gathers[i]));
    memset(z->stale, 0, (size_t)n * sizeof *z->stale);
    return OK;
}

/* Stages 1 and 2: the shards of other ranks are stale until the next forward gathers them, block by block. Only forward
 * reads them, in a step or an evaluation; a checkpoint saves own shards. */
static enum status param_publish(struct run *r, void *self, const struct event *e) {
    struct zero_gather *z = self;
    (void)e;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!param_is_stored(w) || w->weight_residence == RESIDENT_OWN) continue;
        z->stale[i] = true;
        TRY(paint_others(r, w));
    }
    if (gathers_at_once(&r->schedule)) TRY(gather_stale(r, z));
    return zero_second_forget(r);
}

static enum status place_room(struct run *r, struct zero_gather *z) {
    z->quantized.codec = zero_quantized_codec(&r->plan);
    int64_t bytes = zero_quantized_room_bytes(&z->quantized.codec, &r->program);
    void *room;
    TRY(run_take_comm(r, bytes, &room));
    z->quantized.room = room;
    return r->device->clear(r->device, room, bytes);
}

enum status zero_gather_open(struct run *r, struct zero_gather *z) {
    z->gathers = calloc((size_t)r->program.n_params + 1, sizeof *z->gathers);
    z->stale = calloc((size_t)r->program.n_params + 1, sizeof *z->stale);
    if (!z->gathers || !z->stale) return FAIL(E_MEMORY, "no memory for %d requests", r->program.n_params);
    /* first weights are not stale; marked so, they make the first step gather as all others do */
    for (int i = 0; i < r->program.n_params; i++) z->stale[i] = !gathers_at_once(&r->schedule);
    TRY(place_room(r, z));
    TRY(run_subscribe(r, EVENT_PARAM_AHEAD, param_ahead, z));
    TRY(run_subscribe(r, EVENT_PARAM_NEEDED, param_needed, z));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, param_publish, z);
}

void zero_gather_close(struct zero_gather *z) {
    free(z->gathers);
    free(z->stale);
}
