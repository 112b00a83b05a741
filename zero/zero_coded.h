/* Buckets of gradients that travel to their owners as codes. See zero_coded.c. */
#ifndef TRIVIUM_ZERO_ZERO_CODED_H
#define TRIVIUM_ZERO_ZERO_CODED_H

#include "lib/comm/coded.h"
#include "zero/zero_bucket.h"

/* full: whole gradients, rank by rank; coded.sent and coded.got: the codes of all shards, twice. */
struct zero_coded_slot {
    int64_t full_bytes, code_bytes;      /* of the largest bucket that uses the slot */
    float *full;
    struct coded coded;
    int bucket;                          /* which one is in flight here; -1: none */
};

struct zero_coded {
    struct zero_buckets order;           /* the sequence, the buckets, how far the step is; its slots are not used */
    struct codec codec;
    struct zero_coded_slot slots[ZERO_SLOTS];
    int n_residuals;                     /* entries of the two tables, by param; 0: no feedback */
    int64_t *residual_n;                 /* elements; 0: it has no gradient here */
    float **residual;
};

/** As zero_buckets_init; codec: as what gradients (fp32, in host memory) travel; feedback: what that rounds away is
 *  added to the param's next gradient. @errors E_MEMORY  @collective{none} */
enum status zero_coded_init(struct zero_coded *, const struct compiled *, bool every, int64_t bytes, struct codec,
                            bool feedback);
void zero_coded_fini(struct zero_coded *);

/** Bytes of comm memory for slots and residuals; lay them out in so many, which become zero. */
int64_t zero_coded_comm_bytes(const struct zero_coded *);
void zero_coded_place(struct zero_coded *, void *comm);
/** Bills the all-to-alls of a step, one per bucket, and what a checkpoint has of the residuals. */
void zero_coded_bill(const struct zero_coded *, const struct program *, struct bill *);
/** What the gradients of param i left, as a term of checkpoints; false: there are only i (technique.h). */
bool zero_coded_term(const struct zero_coded *, const struct program *, int i, struct rank_term *out);

/** As zero_buckets_ready; buffer: the gradient, fp32 in host memory.
 *  @collective{group, in the same order on all ranks} @errors as zero_buckets_ready */
enum status zero_coded_ready(struct zero_coded *, const struct program *, int param, const float *buffer,
                             bool accumulate, const struct group *);
/** As zero_buckets_finish. @collective{group} @errors as zero_buckets_finish */
enum status zero_coded_finish(struct zero_coded *, const struct program *, bool accumulate);

#endif
