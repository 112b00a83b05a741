/* Reduce-scatter of gradients in buckets: the starting file of lesson 04, exercise "bucket". It replaces
 * zero/zero_bucket.c. zero/zero_bucket.h has each function's contract; lesson 04 explains it ("Stage 2: buckets on
 * their way to their owners"). The function that predicts the sequence of gradients is given.
 *
 * A reduce-scatter for each gradient would pay its latency hundreds of times per step, so gradients are sent in
 * buckets. Each param is cut into n equal shards by itself (so that tied copies on two pipeline stages are cut alike).
 * A reduce-scatter gives rank r one contiguous part, so a bucket is laid out rank by rank: all shards 0 of its params,
 * then all shards 1, ...
 *
 *   params      a0 a1 | b0 b1 | c0 c1           x_r: rank r's shard of x
 *   full        a0 b0 c0 | a1 b1 c1             reduce-scatter: rank r gets the sum of its part
 *
 * The copy also frees the gradient's buffer at once, so that stages 2 and 3 keep the whole gradients of only one block
 * at a time.
 *
 * Two slots alternate: one bucket is filled while the other is in flight. The order of gradients is computed from the
 * rows and the schedule, so every bucket's size, and the memory of the slots, is known before the first step.
 *
 * Source: Rajbhandari et al. 2020, section 5; DeepSpeed's stage_1_and_2.py for the practice. */
#include "zero/zero_bucket.h"

#include "lib/base/grow.h"
#include "lib/program/gradients.h"
#include "zero/zero_pack.h" /* zero_pack, zero_add: the operations on elements */
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

/* z->params[0 .. n_params) is the sequence. Cut it into z->buckets, in order. A gradient joins the last bucket if both
 * have the same dtype and axis (shard_axis), and the bucket's n_ranks parts together have fewer than `bytes` bytes.
 * Otherwise the gradient starts a new bucket, whose n_ranks is the size of the axis (mesh_size; p->place is this
 * rank's). A bucket's count is the number of elements of one part: the sum of shard_n of its params. dtype_size
 * (lib/device/dtype.h) is the bytes of an element; table_grow (lib/base/grow.h) allocates as in predict. */
static enum status cut(struct zero_buckets *z, const struct program *p, int64_t bytes) {
    (void)z, (void)p, (void)bytes;
    return FAIL(E_TODO, "cutting the sequence into buckets is still to be written");
}

/* Bucket i uses slot i % ZERO_SLOTS. How large must a slot be? No bucket is in flight yet. */
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

/* The bytes of both slots, each with a `full` and a `shard`. arena_align(end) is the next legal offset of an array. */
int64_t zero_buckets_comm_bytes(const struct zero_buckets *z) {
    (void)z;
    return 0;
}

/* `comm` has zero_buckets_comm_bytes bytes. Set the address of every `full` and `shard` in it, and keep the device for
 * the copies. */
void zero_buckets_place(struct zero_buckets *z, const struct device *device, void *comm) {
    (void)z, (void)device, (void)comm;
}

/* Bill one reduce-scatter per bucket (bill_exchange, lib/program/bill.h): over its axis, BEHIND_BACKWARD, with the
 * number of elements of the whole bucket. Its packing, which the planner prices, is twice the bytes of the whole bucket
 * and three times the bytes of the received shard. */
void zero_buckets_bill(const struct zero_buckets *z, const struct mesh_place *place, struct bill *bill) {
    (void)z, (void)place, (void)bill;
}

/* ---- running ---- */

/* 1. Check that `param` is the predicted one. 2. Before a bucket's first gradient, wait for the slot's reduce-scatter
 * in flight. 3. Pack the shards rank by rank. 4. With the bucket's last gradient, call comm_reduce_scatter_start. The
 * received sum goes to this rank's gradient: to w->grad if only the own shard is kept (RESIDENT_OWN), otherwise to its
 * element own_first. */
enum status zero_buckets_ready(struct zero_buckets *z, const struct program *p, int param, const void *buffer,
                               bool accumulate, const struct group *group) {
    (void)z, (void)p, (void)param, (void)buffer, (void)accumulate, (void)group;
    return FAIL(E_TODO, "taking a gradient into its bucket is still to be written");
}

/* Check that all predicted gradients have come, wait for all reduce-scatters in flight, and prepare the next step. */
enum status zero_buckets_finish(struct zero_buckets *z, const struct program *p, bool accumulate) {
    (void)z, (void)p, (void)accumulate;
    return FAIL(E_TODO, "waiting for the buckets is still to be written");
}
