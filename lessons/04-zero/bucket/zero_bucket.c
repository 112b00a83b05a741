/* Reduce-scatter of gradients in buckets: the starting file of lesson 04, exercise "bucket". It replaces
 * zero/zero_bucket.c. zero/zero_bucket.h has each function's contract; lesson 04 explains it ("Stage 2: buckets on
 * their way to their owners"). zero/zero_bucket_plan.c predicts the sequence of gradients, and calls steps 1 to 3.
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
 * There are three types:
 *
 *   struct zero_buckets   (zero/zero_bucket.h) the sequence, its buckets, their slots, and where the step is
 *   struct program        (lib/program/program.h) has the params: a param's grad_type.dtype, shard_axis, shard_n (the
 *                         elements of one shard), own_first, grad, name; and place, this rank's
 *   struct group          (lib/comm/comm.h) the ranks of a reduce-scatter
 *
 * Grade after step 2, and after step 3: a claim more holds each time, before anything is sent.
 *
 * Source: Rajbhandari et al. 2020, section 5; DeepSpeed's stage_1_and_2.py for the practice. */
#include "zero/zero_bucket.h"

#include "lib/base/grow.h"
#include "zero/zero_pack.h" /* zero_pack, zero_add: the operations on elements */

/* ---- buckets and slots ---- */

/* TODO 1. z->params[0 .. n_params) is the sequence. Cut it into z->buckets, in order. A gradient joins the last bucket
 * if both have the same dtype and axis (shard_axis), and the bucket's n_ranks parts together have fewer than `bytes`
 * bytes. Otherwise the gradient starts a new bucket, whose n_ranks is the size of the axis (mesh_size; p->place is this
 * rank's). A bucket's count is the number of elements of one part: the sum of shard_n of its params. dtype_size
 * (lib/device/dtype.h) is the bytes of an element. A place for a bucket more: z->buckets = table_grow(z->buckets, z->n,
 * sizeof *z->buckets). */
enum status zero_buckets_cut(struct zero_buckets *z, const struct program *p, int64_t bytes) {
    (void)z, (void)p, (void)bytes;
    return FAIL(E_TODO, "cutting the sequence into buckets is still to be written");
}

/* TODO 2. Bucket i uses slot i % ZERO_SLOTS. How large must a slot be? No bucket is in flight yet. */
enum status zero_buckets_size(struct zero_buckets *z) {
    (void)z;
    return FAIL(E_TODO, "the sizes of the slots are still to be written");
}

/* TODO 3. Where the `full` and the `shard` of each slot lie in comm memory, and the bytes of all. arena_align(end) is
 * the next legal offset of an array. With base NULL only the bytes are asked for. */
int64_t zero_buckets_lay_out(struct zero_buckets *z, char *base) {
    (void)z, (void)base;
    return 0;
}

/* ---- running ---- */

/* TODO 4. (a) Check that `param` is the predicted one; otherwise E_INTERNAL, "gradient 3 of the step is that of w8, and
 * not the predicted one": 3 counts the step's gradients from 0, w8 is the param's name. (b) Before a bucket's first
 * gradient, wait for the slot's reduce-scatter in flight. (c) Pack the shards rank by rank. (d) With the bucket's last
 * gradient, call comm_reduce_scatter_start. The received sum goes to this rank's gradient: to w->grad if only the own
 * shard is kept (RESIDENT_OWN), otherwise to its element own_first. */
enum status zero_buckets_ready(struct zero_buckets *z, const struct program *p, int param, const void *buffer,
                               bool accumulate, const struct group *group) {
    (void)z, (void)p, (void)param, (void)buffer, (void)accumulate, (void)group;
    return FAIL(E_TODO, "taking a gradient into its bucket is still to be written");
}

/* TODO 5. Check that all predicted gradients have come; otherwise E_INTERNAL, "3 gradients of 20 came before the end of
 * backward". Wait for all reduce-scatters in flight, and prepare the next step. */
enum status zero_buckets_finish(struct zero_buckets *z, const struct program *p, bool accumulate) {
    (void)z, (void)p, (void)accumulate;
    return FAIL(E_TODO, "waiting for the buckets is still to be written");
}
