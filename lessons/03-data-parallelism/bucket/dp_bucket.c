/* Exercise: buckets (lesson 03).
 *
 * Gradients are in the grad arena in the order of the param table, and backward finishes them roughly from the end of
 * the table to its start. A bucket is a range of this arena: the gradients of some consecutive params. One all-reduce
 * sums them over the ranks as soon as the last of them is final, while backward still works on earlier layers.
 *
 * Write the four functions below; dp/dp_bucket.h has their contracts. There are three types:
 *
 *   struct dp_buckets   (dp/dp_bucket.h) the buckets, and of each param which bucket has it
 *   struct program      (lib/program/program.h) has the table, params[0 .. n_params): `present` and grad_type of each,
 *                       and its place in the arena, param_grad_offset(param)
 *   struct group        (lib/comm/comm.h) the ranks of a sum
 *
 * and these functions: type_bytes (lib/device/tensor.h); dtype_size (lib/device/dtype.h), to convert bytes to elements;
 * table_grow (lib/base/grow.h); comm_all_reduce_start, comm_wait. dp/dp_bucket_bill.c bills what you send.
 *
 * Grade a copy in my/ with: make grade LESSON=03 FILE=my/dp_bucket.c. Three claims hold after dp_buckets_init. */
#include "dp/dp_bucket.h"

#include "lib/base/grow.h"
#include <stdlib.h>

/* TODO 1. Cut the table into buckets, from the last param to the first. A bucket with `bytes` bytes or more takes no
 * further param. All params of a bucket have the same dtype and axis (param_replicas), because an all-reduce has one of
 * each. Params that this rank lacks (`present` is false) are in no bucket. A bucket is a range of the arena: the gaps
 * between its params count among its bytes. For each bucket set first, last, n_params, offset, bytes, dtype and axis.
 * The axis is that of the ranks that have copies of the param: dp for all but experts, whose copies lie along another
 * (lesson 14). Set of_param to the bucket of each param, or -1. */
enum status dp_buckets_init(struct dp_buckets *d, const struct program *p, int64_t bytes) {
    (void)p, (void)bytes;
    *d = (struct dp_buckets){0};
    return FAIL(E_TODO, "dp_buckets_init is still to be written");
}

/* Free the memory of dp_buckets_init. Extend this function if your dp_buckets_init allocates more. */
void dp_buckets_fini(struct dp_buckets *d) {
    free(d->bucket);
    free(d->of_param);
    *d = (struct dp_buckets){0};
}

/* TODO 2. The gradient of `param` is final: count it. If its bucket is now complete, start the all-reduce of the
 * bucket's bytes in the arena. Do not wait for the all-reduce, because backward continues meanwhile. */
enum status dp_bucket_ready(struct dp_buckets *d, int param, void *grad_base, const struct group *group) {
    (void)d, (void)param, (void)grad_base, (void)group;
    return FAIL(E_TODO, "dp_bucket_ready is still to be written");
}

/* TODO 3. At the end of backward, wait for every bucket's all-reduce, and prepare the next step. An incomplete bucket
 * is an error of the caller: E_INTERNAL, "bucket 3 has 1 final gradients of 2 ...". */
enum status dp_buckets_finish(struct dp_buckets *d) {
    (void)d;
    return FAIL(E_TODO, "dp_buckets_finish is still to be written");
}
