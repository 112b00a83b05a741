/* Sums over a group in which every term travels as a code (lib/ops/codec.h). Host memory, fp32.
 *
 * The count elements are cut into one part a rank, of ceil(count / n) elements; the last ones may be shorter or empty.
 *
 *   reduce-scatter   each rank encodes its terms, part by part, and sends part r to rank r (an all-to-all of bytes);
 *                    rank r decodes and adds in rank order
 *   all-gather       the sum of the own part is encoded and sent to all; every rank decodes it, the sender too
 *
 * So a term is rounded once and the sum once, where a coded ring would round n times; and all ranks have the same bits.
 * A code has room for the longest part, b = codec_bytes(ceil(count / n)), so a rank sends 2 (n-1) b bytes.
 *
 * Error feedback: the rounding error of encoding is kept as a residual, and added to the next input of the encoder: one
 * residual of the own terms (all parts), one of the sum (the own part). Over many steps nothing is lost, only late.
 *
 * Source: Seide et al. 2014, "1-bit stochastic gradient descent", section 3; Karimireddy et al. 2019. */
#ifndef TRIVIUM_COMM_CODED_H
#define TRIVIUM_COMM_CODED_H

#include "lib/comm/comm_request.h"
#include "lib/ops/codec.h"

struct coded {
    struct codec codec;
    const struct group *group;
    int64_t count;
    unsigned char *sent, *got;         /* coded_wire_bytes each; borrowed, and in use from start to finish */
    float *residual, *sum_residual;    /* (count) and (own part); borrowed, zero at first; NULL: no feedback */
    float *x;                          /* of the sum in flight */
    struct comm_request request;
};

/** Elements of a part; and bytes of the codes of all parts, n_ranks times codec_bytes of a part: the ledger's whole
 *  buffer of each of the two exchanges. n_ranks: of the group. */
int64_t coded_part(int64_t count, int n_ranks);
int64_t coded_wire_bytes(const struct codec *, int64_t count, int n_ranks);
/** The first element of rank's own part, count at most; and its elements. */
int64_t coded_first(int64_t count, int n_ranks, int rank);
int64_t coded_own_count(int64_t count, int n_ranks, int rank);
/** Clear the residuals of elements first .. first + n - 1, which mean nothing, such as gaps between gradients. */
void coded_forget(struct coded *, int64_t first, int64_t n);

/** Start the reduce-scatter of x (count), which is only read until coded_reduce_scatter_wait.
 *  @collective{group} @errors E_COMM */
enum status coded_reduce_scatter_start(struct coded *, float *x);
/** After the start: subtract from x (count) its decoded codes, which leaves the rounding error. For callers that keep
 *  residuals elsewhere; residual is NULL then. @collective{none} */
void coded_subtract_sent(const struct coded *, float *x);
/** Wait; then the rank's own part of x is the sum. The rest is unchanged.
 *  @collective{group} @errors E_TIMEOUT, E_COMM */
enum status coded_reduce_scatter_wait(struct coded *);
/** Encode the own part of the same x, and start the all-gather. @collective{group} @errors E_COMM */
enum status coded_all_gather_start(struct coded *);
/** Wait; then x (count) is the same on all ranks. @collective{group} @errors E_TIMEOUT, E_COMM */
enum status coded_all_gather_wait(struct coded *);

#endif
