/* Buckets of gradients, reduce-scattered to their owners.
 *
 * A reduce-scatter per gradient would pay the latency hundreds of times per step, so gradients are sent in buckets.
 * Each param is sharded by itself into n equal shards, so that tied copies on two pipeline stages have the same shards.
 * But a reduce-scatter gives rank r one contiguous range. A bucket is therefore laid out rank by rank: shard 0 of all
 * its params, then shard 1 of all, ...
 *
 *   params      a0 a1 | b0 b1 | c0 c1           x_r: shard r of param x
 *   full        a0 b0 c0 | a1 b1 c1             reduce-scatter: rank r gets the sum of its shards
 *
 * The copy into the bucket also frees the gradient's buffer. So stages 2 and 3 keep whole gradients of only one block
 * at a time.
 *
 * Two slots alternate: one bucket is filled while the other is in flight. The order of gradients is predicted from the
 * rows and the schedule, so every bucket's size, and the memory of the slots, is known before the first step.
 *
 * Source: Rajbhandari et al. 2020, section 5; DeepSpeed's stage_1_and_2.py for the practice. */
#include "zero/zero_bucket.h"

#include "lib/base/grow.h"
#include "lib/program/sums.h"
#include "zero/zero_coded.h"
#include "zero/zero_pack.h"

/* ---- buckets and slots ---- */
static bool starts_bucket(const struct zero_buckets *z, const struct param *w, int64_t bytes) {
    if (z->n == 0) return true;
    const struct zero_bucket *b = &z->buckets[z->n - 1];
    return b->dtype != w->grad_type.dtype || b->axis != w->shard_axis ||
           b->count * b->n_ranks * (int64_t)dtype_size(b->dtype) >= bytes;
}

enum status zero_buckets_cut(struct zero_buckets *z, const struct program *p, int64_t bytes) {
    for (int i = 0; i < z->n_params; i++) {
        const struct param *w = &p->params[z->params[i]];
        if (starts_bucket(z, w, bytes)) {
            z->buckets = table_grow(z->buckets, z->n, sizeof *z->buckets);
            enum mesh_axis axis = w->shard_axis;
            z->buckets[z->n++] = (struct zero_bucket){
                .first = i, .dtype = w->grad_type.dtype, .axis = axis, .n_ranks = mesh_size(axis, &p->place)};
        }
        z->buckets[z->n - 1].n++;
        z->buckets[z->n - 1].count += w->shard_n;
    }
    return OK;
}

enum status zero_buckets_size(struct zero_buckets *z) {
    for (int i = 0; i < ZERO_SLOTS; i++) z->slots[i].bucket = -1;
    for (int i = 0; i < z->n; i++) {
        struct zero_slot *s = &z->slots[i % ZERO_SLOTS];
        int64_t shard = z->buckets[i].count * (int64_t)dtype_size(z->buckets[i].dtype);
        if (shard > s->shard_bytes) s->shard_bytes = shard;
        if (shard * z->buckets[i].n_ranks > s->full_bytes) s->full_bytes = shard * z->buckets[i].n_ranks;
    }
    return OK;
}

int64_t zero_buckets_lay_out(struct zero_buckets *z, char *base) {
    int64_t end = 0;
    for (struct zero_slot *s = z->slots; s < z->slots + ZERO_SLOTS; s++) {
        int64_t full = arena_align(end), shard = arena_align(full + s->full_bytes);
        if (s->full_bytes == 0) continue;
        if (base) s->full = base + full, s->shard = base + shard;
        end = shard + s->shard_bytes;
    }
    return end;
}

/* ---- running ---- */
/* Wait for the slot's bucket, and add its sums to own gradients; without `accumulate`, copy the sums there. If own
 * gradients are in host memory, first download the shard; the host adds it. */
static enum status arrive(struct zero_buckets *z, const struct program *p, struct zero_slot *s, bool accumulate) {
    if (s->bucket < 0) return OK;
    const struct zero_bucket *b = &z->buckets[s->bucket];
    const struct device *d = z->staging ? device_cpu() : z->device;
    char *from = z->staging ? z->staging : s->shard;
    TRY(z->coded ? zero_coded_wait(z->coded, s) : comm_wait(&s->request));
    if (z->staging) TRY(comm_wait_queued(z->device, "a bucket's sum"));
    if (z->staging) TRY(z->device->download(z->device, from, s->shard, b->count * (int64_t)dtype_size(b->dtype)));
    for (int i = 0; i < b->n; i++) {
        const struct param *w = &p->params[z->params[b->first + i]];
        int64_t bytes = w->shard_n * (int64_t)dtype_size(b->dtype);
        if (accumulate && p->fixed_sums) TRY(sums_push(d, w, z->nth[b->first + i], (float *)from));
        else if (accumulate) TRY(zero_add(d, param_own_grad(w), from, w->shard_n, b->dtype));
        else TRY(d->copy(d, param_own_grad(w), from, bytes));
        from += bytes;
    }
    s->bucket = -1;
    return OK;
}

/* Append shard r of the gradient to rank r's range of the bucket, for all r. */
static enum status pack(const struct zero_buckets *z, const struct zero_bucket *b, struct zero_slot *s,
                        const struct param *w, const void *gradient) {
    int64_t size = (int64_t)dtype_size(b->dtype), bytes = w->shard_n * size;
    return zero_pack(z->device, s->full + z->filled * size, b->count * size, gradient, bytes, b->n_ranks);
}

enum status zero_buckets_ready(struct zero_buckets *z, const struct program *p, int param, const void *buffer,
                               bool accumulate, const struct group *group) {
    if (z->at >= z->n_params || z->params[z->at] != param)
        return FAIL(E_INTERNAL, "gradient %d of the step is that of %s, and not the predicted one", z->at,
                    p->params[param].name);
    const struct zero_bucket *b = &z->buckets[z->current];
    struct zero_slot *s = &z->slots[z->current % ZERO_SLOTS];
    if (z->filled == 0) TRY(arrive(z, p, s, accumulate));            /* the slot's previous bucket */
    TRY(pack(z, b, s, &p->params[param], buffer));
    z->filled += p->params[param].shard_n;
    z->at++;
    if (z->at < b->first + b->n) return OK;
    s->bucket = z->current++;
    z->filled = 0;
    if (z->coded) return zero_coded_start(z->coded, z, p, s, group);
    return comm_reduce_scatter_start(group, s->full, s->shard, b->count, b->dtype, &s->request);
}

enum status zero_buckets_finish(struct zero_buckets *z, const struct program *p, bool accumulate) {
    if (z->at != z->n_params)
        return FAIL(E_INTERNAL, "%d gradients of %d came before the end of backward", z->at, z->n_params);
    for (int i = 0; i < ZERO_SLOTS; i++)                             /* the older bucket first */
        TRY(arrive(z, p, &z->slots[(z->current + i) % ZERO_SLOTS], accumulate));
    z->at = z->current = 0;
    return OK;
}
