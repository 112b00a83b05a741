/* Buckets of gradients, reduce-scattered to their owners. See zero_bucket.c. */
#pragma once

#include "lib/comm/comm_request.h"
#include "lib/run/technique.h"

enum { ZERO_SLOTS = 2 };             /* buckets at a time: one being filled, one in flight */

/* Gradients first .. first + n - 1 of the step's sequence, sent in one reduce-scatter of `count` elements per rank, to
 * the n_ranks that hold the same weights. */
struct zero_bucket { int first, n; int64_t count; enum dtype dtype; enum mesh_axis axis; int n_ranks; };

/* Memory of a bucket while it is filled and sent: whole gradients, rank by rank, and this rank's shard of the sum. */
struct zero_slot {
    int64_t full_bytes, shard_bytes;     /* of the largest bucket that uses the slot */
    char *full, *shard;
    int bucket;                          /* the bucket in flight; -1: none */
    struct comm_request request;
};

struct zero_coded;
struct zero_buckets {
    const struct device *device;         /* whose memory holds whole gradients and slots */
    struct zero_coded *coded;            /* buckets are sent as codes (zero_coded.h); NULL: no codes. Borrowed */
    /* Pinned host memory for the largest shard, if a GPU has own gradients in host memory; otherwise NULL. Borrowed;
     * the caller sets it after zero_buckets_place. */
    void *staging;
    int n, n_params;            /* n_params: the length of the sequence */
    int *params;                         /* the sequence: the params of GRAD_READY rows, in order */
    int *nth;                            /* by position: the `nth` of the row's action (schedule.h) */
    struct zero_bucket *buckets;
    struct zero_slot slots[ZERO_SLOTS];
    int at;                              /* position in the sequence */
    int current;                         /* the bucket being filled */
    int64_t filled;                      /* its elements per rank so far */
};

/** Predict the step's sequence of gradients from rows and schedule, and group it into buckets of at least `bytes` and
 *  at least one gradient. every: each GRAD_READY counts (stages 2 and 3); if not, a param's final one (stage 1).
 *  @errors E_MEMORY  @collective{none} */
enum status zero_buckets_init(struct zero_buckets *, const struct compiled *, bool every, int64_t bytes);
void zero_buckets_fini(struct zero_buckets *);

/** What the plan (zero_bucket_plan.c) is made of. cut: the sequence params[0 .. n_params) into buckets; size: bytes of
 *  the slots; lay_out: their addresses, which base NULL leaves alone; @return the bytes of all. @errors none */
enum status zero_buckets_cut(struct zero_buckets *, const struct program *, int64_t bytes);
enum status zero_buckets_size(struct zero_buckets *);
int64_t zero_buckets_lay_out(struct zero_buckets *, char *base);
/** Bytes of comm memory for the slots. */
int64_t zero_buckets_comm_bytes(const struct zero_buckets *);
/** Lay the slots out in comm, device memory of zero_buckets_comm_bytes bytes. */
void zero_buckets_place(struct zero_buckets *, const struct device *, void *comm);
/** Bills the reduce-scatters of a step: one per bucket over its axis, after backward. place: of the billed rank. */
void zero_buckets_bill(const struct zero_buckets *, const struct mesh_place *, struct bill *);

/** The gradient of the sequence's next param is ready in `buffer` (padded_n elements): copy it into its bucket, and
 *  start the bucket's reduce-scatter if it is full. accumulate: add the sums to the owners' gradients; if not, replace
 *  the gradients. @collective{group, in the same order on all ranks} @errors E_INTERNAL: not the predicted param;
 *  E_COMM, E_TIMEOUT */
enum status zero_buckets_ready(struct zero_buckets *, const struct program *, int param, const void *buffer,
                               bool accumulate, const struct group *);
/** Wait for all buckets in flight, and reset. @collective{group} @errors E_COMM, E_TIMEOUT, E_INTERNAL */
enum status zero_buckets_finish(struct zero_buckets *, const struct program *, bool accumulate);
