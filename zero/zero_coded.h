/* Buckets of gradients that are sent to their owners as codes. See zero_coded.c. */
#pragma once

#include "lib/comm/coded.h"
#include "zero/zero_bucket.h"

struct zero_coded {
    struct codec codec;
    struct coded slot[ZERO_SLOTS];       /* codes sent and received, of all shards of a slot's bucket */
    int64_t code_bytes[ZERO_SLOTS];      /* their bytes, for the largest bucket of the slot */
    int n_residuals;                     /* entries of the two tables, by param; 0: no feedback */
    int64_t *residual_n;                 /* elements; 0: the param has no gradient here */
    float **residual;
};

/** Size the codes of these buckets; gradients are fp32 in host memory. feedback: add the rounding error of a param's
 *  code to its next gradient. @errors E_MEMORY  @collective{none} */
enum status zero_coded_init(struct zero_coded *, const struct zero_buckets *, const struct program *, struct codec,
                            bool feedback);
void zero_coded_fini(struct zero_coded *);

/** Bytes of comm memory for codes and residuals; lay them out there, zeroed. */
int64_t zero_coded_comm_bytes(const struct zero_coded *);
void zero_coded_place(struct zero_coded *, void *comm);
/** Bills the all-to-alls of a step, one per bucket, and the residuals in a checkpoint. */
void zero_coded_bill(const struct zero_coded *, const struct zero_buckets *, const struct program *, struct bill *);
/** The residual of param i, as a term of checkpoints; false: i is beyond the last one (technique.h). */
bool zero_coded_term(const struct zero_coded *, const struct program *, int i, struct rank_term *out);

/** Encode the full bucket of a slot and start its all-to-all. slot.full changes. @collective{group} @errors E_COMM */
enum status zero_coded_start(struct zero_coded *, const struct zero_buckets *, const struct program *,
                             const struct zero_slot *, const struct group *);
/** Wait until slot.shard is this rank's shard of the sum. @collective{group} @errors E_COMM, E_TIMEOUT */
enum status zero_coded_wait(struct zero_coded *, const struct zero_slot *);
