/* Exercise: buckets.
 *
 * Gradients are in the grad arena in the order of the param table, and backward finishes them roughly from the end of
 * the table to its start. A bucket is a range of this arena: the gradients of some consecutive params. One all-reduce
 * sums them over the ranks as soon as the last of them is final, while backward still works on earlier layers.
 *
 * Write the five functions below; dp/dp_bucket.h has their contracts and the structs. The theory is in lesson 03,
 * "Buckets". You need struct param (lib/program/program.h) with `present` and `grad_type`, and its param_grad_offset;
 * type_bytes (lib/device/tensor.h); dtype_size (lib/device/dtype.h), to convert bytes to elements; table_grow
 * (lib/base/grow.h); comm_all_reduce_start, comm_wait (lib/comm/comm.h); bill_exchange (lib/program/bill.h) and struct
 * exchange (lib/comm/exchange.h).
 *
 * Grade a copy in my/ with: make grade LESSON=03 FILE=my/dp_bucket.c */
#include "dp/dp_bucket.h"

#include "lib/base/grow.h"
#include <stdlib.h>

/* Cut the table into buckets, from the last param to the first. A bucket with `bytes` bytes or more takes no further
 * param. All params of a bucket have the same dtype and axis (param_replicas), because an all-reduce has one of each.
 * Params that this rank lacks (`present` is false) are in no bucket. For each bucket set first, last, n_params, offset,
 * bytes, dtype and axis. Set of_param to the bucket of each param, or -1. */
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

/* The gradient of `param` is final: count it. If its bucket is now complete, start the all-reduce of the bucket's bytes
 * in the arena. Do not wait for the all-reduce, because backward continues meanwhile. */
enum status dp_bucket_ready(struct dp_buckets *d, int param, void *grad_base, const struct group *group) {
    (void)d, (void)param, (void)grad_base, (void)group;
    return FAIL(E_TODO, "dp_bucket_ready is still to be written");
}

/* At the end of backward, wait for every bucket's all-reduce, and prepare the next step. An incomplete bucket is an
 * error of the caller: E_INTERNAL, with the bucket's number and "N final gradients of M". */
enum status dp_buckets_finish(struct dp_buckets *d) {
    (void)d;
    return FAIL(E_TODO, "dp_buckets_finish is still to be written");
}

/* Bill the exchange of each bucket in a step: its axis, operation, number of elements and dtype, and that it overlaps
 * with backward (BEHIND_BACKWARD). bill_exchange computes the bytes. */
void dp_buckets_bill(const struct dp_buckets *d, const struct mesh_place *place, struct bill *bill) {
    (void)d, (void)place, (void)bill;
}
