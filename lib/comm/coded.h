/* Sums over a group in which every term travels as a code (lib/ops/codec.h). Host memory, fp32.
 *
 * The count elements are cut into one part per rank, of ceil(count / n) elements; the last parts may be shorter or
 * empty.
 *
 *   reduce-scatter   each rank encodes its terms, part by part, and sends part r to rank r (an all-to-all of bytes);
 *                    rank r decodes and adds in rank order
 *   all-gather       each rank encodes the sum of its part and sends it to all; every rank decodes it, the sender too
 *
 * So a term is rounded once and the sum once, where a coded ring would round n times. All ranks get the same bits. A
 * code has room for the longest part, b = codec_bytes(ceil(count / n)), so a rank sends 2 (n-1) b bytes.
 *
 * Error feedback: the rounding error of encoding is kept as a residual, and added to the next input of the encoder. One
 * residual belongs to this rank's terms (all parts), the other to the sum (this rank's part). Over many steps no error
 * is lost, because the residual is added in a later step.
 *
 * Source: Seide et al. 2014, "1-bit stochastic gradient descent", section 3; Karimireddy et al. 2019. */
#pragma once

#include "lib/comm/comm_request.h"
#include "lib/ops/codec.h"

struct coded {
    struct codec codec;
    const struct group *group;
    int64_t count;
    unsigned char *sent, *got;         /* coded_wire_bytes each; borrowed, and in use from start to finish */
    float *residual, *sum_residual;    /* (count), (this rank's part); borrowed, zero at first; NULL: no feedback */
    float *x;                          /* the terms and sums of the operation in flight */
    struct comm_request request;
};

/** coded_part: the elements of a part. coded_wire_bytes: the bytes of n_ranks codes of one part, which is the buffer of
 *  each of the two exchanges in the ledger. n_ranks: size of the group. */
int64_t coded_part(int64_t count, int n_ranks);
int64_t coded_wire_bytes(const struct codec *, int64_t count, int n_ranks);
/** coded_first: the first element of the part of `rank`, at most count. coded_own_count: its number of elements. */
int64_t coded_first(int64_t count, int n_ranks, int rank);
int64_t coded_own_count(int64_t count, int n_ranks, int rank);
/** Clear the residuals of elements first .. first + n - 1. Callers use it for elements without a meaning, such as gaps
 *  between gradients. */
void coded_forget(struct coded *, int64_t first, int64_t n);

/** Start the reduce-scatter of x (count), which is only read until coded_reduce_scatter_wait.
 *  @collective{group} @errors E_COMM */
enum status coded_reduce_scatter_start(struct coded *, float *x);
/** After the start: subtract the decoded codes from x (count), so that x becomes the rounding error. For callers that
 *  keep the residuals themselves; `residual` is NULL then. @collective{none} */
void coded_subtract_sent(const struct coded *, float *x);
/** Wait until this rank's part of x is the sum. The other elements of x are unchanged. @collective{group} @errors
 *  E_TIMEOUT, E_COMM */
enum status coded_reduce_scatter_wait(struct coded *);
/** Encode this rank's part of the same x, and start the all-gather. @collective{group} @errors E_COMM */
enum status coded_all_gather_start(struct coded *);
/** Wait until x (count) is the whole sum, the same on all ranks. @collective{group} @errors E_TIMEOUT, E_COMM */
enum status coded_all_gather_wait(struct coded *);
