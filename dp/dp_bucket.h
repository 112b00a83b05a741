/* Buckets: consecutive params whose gradients share one all-reduce. See dp_bucket.c. */
#pragma once

#include "lib/comm/comm_request.h"
#include "lib/program/bill.h"

/* Params first .. last of the table (those present), and their range of the grad arena, including alignment gaps. */
struct dp_bucket {
    int first, last, n_params;
    int64_t offset, bytes;
    enum dtype dtype;
    enum mesh_axis axis;            /* all ranks along this axis hold the same params of the bucket */
    int n_ready;                    /* gradients that are final in this step */
    struct comm_request request;
};
struct dp_buckets { int n; struct dp_bucket *bucket; int *of_param; };

/** Group the param table into buckets of at least `bytes` and at least one param, from the last param to the first:
 *  the order in which backward finishes them. @errors E_MEMORY  @collective{none} */
enum status dp_buckets_init(struct dp_buckets *, const struct program *, int64_t bytes);
void dp_buckets_fini(struct dp_buckets *);

/** The param's gradient is final. If that completes its bucket, start the bucket's all-reduce over the group.
 *  grad_base: start of the grad arena. @collective{group, in the same order on all ranks} @errors E_COMM */
enum status dp_bucket_ready(struct dp_buckets *, int param, void *grad_base, const struct group *);
/** Wait for every bucket, and reset them for the next step. @collective{group} @errors E_TIMEOUT, E_COMM; E_INTERNAL: a
 *  bucket was never completed */
enum status dp_buckets_finish(struct dp_buckets *);

/** Bills the all-reduces of a step: one per bucket over its axis, after backward. place: of the billed rank. */
void dp_buckets_bill(const struct dp_buckets *, const struct mesh_place *, struct bill *);
