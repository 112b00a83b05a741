/* Buckets of gradients on their way to their owners. See zero_bucket.c. */
#ifndef TRIVIUM_ZERO_ZERO_BUCKET_H
#define TRIVIUM_ZERO_ZERO_BUCKET_H

#include "lib/comm/comm_request.h"
#include "lib/run/technique.h"

enum { ZERO_SLOTS = 2 };             /* buckets at a time: one being filled, one in flight */

/* Gradients first .. first + n - 1 of the step's sequence, summed in one reduce-scatter of count elements to every
 * rank. */
struct zero_bucket { int first, n; int64_t count; enum dtype dtype; };

/* Where a bucket lies while it is filled and sent: its whole gradients, rank by rank, and this rank's part of the
 * sum. */
struct zero_slot {
    int64_t full_bytes, shard_bytes;     /* of the largest bucket that uses the slot */
    char *full, *shard;
    int bucket;                          /* which one is in flight here; -1: none */
    struct comm_request request;
};

struct zero_buckets {
    const struct device *device;         /* where gradients and slots lie */
    int n_ranks, n, n_params;            /* n_params: the length of the sequence */
    int *params;                         /* whose gradient is ready, in the order of the rows that will run */
    struct zero_bucket *buckets;
    struct zero_slot slots[ZERO_SLOTS];
    int at;                              /* how much of the sequence this step has seen */
    int current;                         /* the bucket that is being filled */
    int64_t filled;                      /* and how many elements a rank it has */
};

/** Foretell the step's sequence of gradients from rows and schedule, and cut it into buckets of at least `bytes` (one
 *  gradient at least). every: each GRAD_READY counts (stages 2 and 3); else only the final one of a param (stage 1).
 *  @errors E_MEMORY  @collective{none} */
enum status zero_buckets_init(struct zero_buckets *, const struct compiled *, int n_ranks, bool every, int64_t bytes);
void zero_buckets_fini(struct zero_buckets *);

/** Bytes of comm memory for the slots; and their addresses, once it is there: memory of the device, like all
 *  gradients. */
int64_t zero_buckets_comm_bytes(const struct zero_buckets *);
void zero_buckets_place(struct zero_buckets *, const struct device *, void *comm);
/** A step's sums, by name: one a bucket over AXIS_DP, after backward. place: of the rank whose bill it is. */
void zero_buckets_bill(const struct zero_buckets *, const struct mesh_place *, struct bill *);

/** The gradient of the sequence's next param is ready in `buffer` (padded_n elements): copy it into its bucket; a full
 *  bucket flies off. accumulate: sums that arrive are added to the owners' gradients; else they replace them.
 *  @collective{group, in the same order on all ranks} @errors E_INTERNAL: not the param that was foretold; E_COMM,
 *  E_TIMEOUT */
enum status zero_buckets_ready(struct zero_buckets *, const struct program *, int param, const void *buffer,
                               bool accumulate, const struct group *);
/** Wait for what is in flight and make ready for the next step. @collective{group} @errors E_COMM, E_TIMEOUT,
 *  E_INTERNAL */
enum status zero_buckets_finish(struct zero_buckets *, const struct program *, bool accumulate);

#endif
