/* Exercise: buckets.
 *
 * Gradients lie in the grad arena in the order of the param table, and backward finishes them roughly from the end of
 * the table to its start. A bucket is a range of that arena: some consecutive params, whose gradients are summed over
 * the ranks by one all-reduce as soon as the last of them is final, while backward still works on earlier layers.
 *
 * What you write are the five functions below; dp/dp_bucket.h says what each promises, and has the structs. Theory:
 * lesson 03, "Buckets". What you need of others: struct param (lib/program/program.h) with `present` and `grad_type`,
 * and its param_grad_offset; type_bytes (lib/device/tensor.h); dtype_size (lib/device/dtype.h), bytes into elements;
 * table_grow (lib/base/grow.h); comm_all_reduce_start, comm_wait (lib/comm/comm.h); bill_exchange (lib/program/bill.h)
 * and struct exchange (lib/comm/exchange.h).
 *
 * Grade a copy in my/ with: make grade LESSON=03 FILE=my/dp_bucket.c */
#include "dp/dp_bucket.h"

#include "lib/base/grow.h"
#include <stdlib.h>

/* Cut the table into buckets, from the last param to the first. A bucket is full when it has `bytes` bytes or more; it
 * then takes no further param. All its params have one dtype and one axis (param_replicas), as a sum has one of each.
 * Params that this rank has not (`present` is false) are in no bucket. Set, for each bucket: first, last, n_params,
 * offset, bytes, dtype, axis; and of_param: which bucket a param is in, or -1. */
enum status dp_buckets_init(struct dp_buckets *d, const struct program *p, int64_t bytes) {
    (void)p, (void)bytes;
    *d = (struct dp_buckets){0};
    return FAIL(E_TODO, "dp_buckets_init is still to be written");
}

/* Whatever dp_buckets_init took is given back. Written already, as long as you take no more than this. */
void dp_buckets_fini(struct dp_buckets *d) {
    free(d->bucket);
    free(d->of_param);
    *d = (struct dp_buckets){0};
}

/* The gradient of `param` is final. Count it; once its bucket is complete, start the sum of the bucket's bytes in the
 * arena. Do not wait for it: backward goes on meanwhile. */
enum status dp_bucket_ready(struct dp_buckets *d, int param, void *grad_base, const struct group *group) {
    (void)d, (void)param, (void)grad_base, (void)group;
    return FAIL(E_TODO, "dp_bucket_ready is still to be written");
}

/* The end of backward: wait for every bucket's sum, and make ready for the next step. A bucket that was never completed
 * is a fault of the caller: E_INTERNAL, with the bucket's number and "N final gradients of M". */
enum status dp_buckets_finish(struct dp_buckets *d) {
    (void)d;
    return FAIL(E_TODO, "dp_buckets_finish is still to be written");
}

/* What the buckets exchange in a step, by name: of each its axis, operation, how many elements of which
 * dtype, and that it goes on after backward (BEHIND_BACKWARD). Bytes follow from that. */
void dp_buckets_bill(const struct dp_buckets *d, const struct mesh_place *place, struct bill *bill) {
    (void)d, (void)place, (void)bill;
}
