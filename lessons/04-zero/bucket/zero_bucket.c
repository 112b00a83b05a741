/* Gradients on their way to their owners: the starter of lesson 04, exercise "bucket". It stands in for
 * zero/zero_bucket.c. zero/zero_bucket.h says what each function promises, lesson 04 why ("Stage 2: buckets on their
 * way to their owners"). What predicts the sequence is given.
 *
 * A reduce-scatter for every gradient pays its latency hundreds of times a step, so gradients travel in buckets. Each
 * param is cut into n equal shards by itself (so that tied copies on two pipeline stages are cut alike), but a
 * reduce-scatter gives rank r one contiguous piece. A bucket is therefore laid out rank by rank: all shards 0 of its
 * params, then all shards 1, ...
 *
 *   params      a0 a1 | b0 b1 | c0 c1           x_r: what rank r owns of x
 *   full        a0 b0 c0 | a1 b1 c1             reduce-scatter: rank r gets the sum of its part
 *
 * Copying has a use of its own: the gradient's buffer is free as soon as it has been copied, which is what lets stages
 * 2 and 3 keep no whole gradients but one block's at a time.
 *
 * Two slots alternate: one bucket is filled while the other flies. Which gradients come in which order is read off the
 * rows and the schedule beforehand, so every bucket's size, and the memory of the slots, is known before the first
 * step.
 *
 * Source: Rajbhandari et al. 2020, section 5; DeepSpeed's stage_1_and_2.py for what is done in practice. */
#include "zero/zero_bucket.h"

#include "lib/base/grow.h"
#include "lib/program/gradients.h"
#include "zero/zero_pack.h" /* zero_pack, zero_add: the two things that are done with elements */
#include <stdlib.h>

/* ---- predicting ---- */
static void predict(struct zero_buckets *z, const struct compiled *c, bool every) {
    struct row_walk at = {.ends = !every};
    for (const struct row *r; (r = schedule_next_row(c->schedule, c->chunks, &at));) {
        if (r->kind != ROW_GRAD_READY || (!every && !row_is_final(r, at.action))) continue;
        z->params = table_grow(z->params, z->n_params, sizeof *z->params);
        z->params[z->n_params++] = r->id;
    }
}

/* z->params[0 .. n_params) is the sequence. Cut it into z->buckets, in order: a gradient joins the last bucket if the
 * two have the same dtype and axis (shard_axis), and the bucket's n_ranks parts together have fewer than `bytes` bytes;
 * else it starts a new one, whose n_ranks are those of the axis (mesh_size; p->place is this rank's). A bucket's count
 * is the elements of one part: the shard_n of its params. dtype_size (lib/device/dtype.h) is the bytes of an element;
 * table_grow (lib/base/grow.h) makes room as above. */
static enum status cut(struct zero_buckets *z, const struct program *p, int64_t bytes) {
    (void)z, (void)p, (void)bytes;
    return FAIL(E_TODO, "cutting the sequence into buckets is still to be written");
}

/* Bucket i will lie in slot i % ZERO_SLOTS. How large does a slot have to be? No bucket is in flight yet. */
static enum status size_slots(struct zero_buckets *z) {
    (void)z;
    return FAIL(E_TODO, "the sizes of the slots are still to be written");
}

enum status zero_buckets_init(struct zero_buckets *z, const struct compiled *c, bool every, int64_t bytes) {
    *z = (struct zero_buckets){0};
    predict(z, c, every);
    TRY(cut(z, c->program, bytes));
    return size_slots(z);
}

void zero_buckets_fini(struct zero_buckets *z) {
    free(z->params);
    free(z->buckets);
    *z = (struct zero_buckets){0};
}

/* ---- memory and bill ---- */

/* What both slots need, each with its `full` and its `shard`. arena_align(end) is the next offset at which an array may
 * begin. */
int64_t zero_buckets_comm_bytes(const struct zero_buckets *z) {
    (void)z;
    return 0;
}

/* `comm` has that many bytes. Every `full` and `shard` gets its address in it; the device is kept for copying. */
void zero_buckets_place(struct zero_buckets *z, const struct device *device, void *comm) {
    (void)z, (void)device, (void)comm;
}

/* One reduce-scatter a bucket, by name (bill_exchange, lib/program/bill.h): over its axis, BEHIND_BACKWARD, with the
 * number of elements of the whole. Its packing (which the planner prices): the bytes of the whole bucket twice, and of
 * the shard that arrives three times. */
void zero_buckets_bill(const struct zero_buckets *z, const struct mesh_place *place, struct bill *bill) {
    (void)z, (void)place, (void)bill;
}

/* ---- running ---- */

/* 1. Is it the param that was predicted? 2. A bucket's first gradient needs the slot: the sum in flight there has to
 * have arrived. 3. Pack the shards rank by rank. 4. With the bucket's last gradient, start comm_reduce_scatter_start.
 * A sum that has arrived goes to the owner's gradient: w->grad where only the own shard is kept (RESIDENT_OWN), else
 * at element own_first of it. */
enum status zero_buckets_ready(struct zero_buckets *z, const struct program *p, int param, const void *buffer,
                               bool accumulate, const struct group *group) {
    (void)z, (void)p, (void)param, (void)buffer, (void)accumulate, (void)group;
    return FAIL(E_TODO, "taking a gradient into its bucket is still to be written");
}

/* Every predicted gradient has come, everything in flight arrives; then the step may begin again. */
enum status zero_buckets_finish(struct zero_buckets *z, const struct program *p, bool accumulate) {
    (void)z, (void)p, (void)accumulate;
    return FAIL(E_TODO, "waiting for the buckets is still to be written");
}
