/* Signs with error feedback: the contract of this exercise. fp32, host memory.
 *
 *   term  = gradient + residual        the part of all gradients so far that has not been sent
 *   s     = mean of |term|             summed in fp64, in the order of the elements, rounded once to a float
 *   sent  = +s or -s, by the sign of term; zero counts as positive
 *   left  = term - sent                the next residual
 *
 * The code of n floats, 4 + ceil(n/8) bytes, is the codec `sign` of lib/ops/codec.h: first the bytes of the float s,
 * then a bit per element, 1 for -s. Element i is bit i % 8 of byte 4 + i / 8, and bit 0 is the least significant; bits
 * after the last element are 0. The bytes need not be aligned. If a term is not finite, s is NaN, so that the receiver
 * notices.
 *
 * Over a group of n ranks, elements are cut as in lib/comm/coded.h: part r is [coded_first(count, n, r), +
 * coded_own_count(count, n, r)), and a code has room for the longest part, b = feedback_bytes(coded_part(count, n)).
 *
 *   reduce-scatter   each rank encodes its terms part by part, with `residual`, and sends part r to rank r;
 *                    rank r decodes the parts and adds them in rank order
 *   all-gather       each rank encodes the sum of its own part, with `sum_residual`; all ranks receive and decode it */
#pragma once

#include "lib/comm/coded.h"
#include "lib/comm/comm_request.h"

/* Memory of an all-reduce, in addition to its buffer. All borrowed. */
struct feedback {
    unsigned char *sent, *got;   /* (n b) bytes each */
    float *residual;             /* (count): of this rank's terms, zero before the first step; NULL: no feedback */
    float *sum_residual;         /* (own count): of the sum of this rank's part, likewise */
};

/** Bytes of the code of n floats; n >= 0. @collective{none} */
int64_t feedback_bytes(int64_t n);

/** Encode gradient (n) as code (feedback_bytes(n)). The old residual (n) is added to the gradient, and the call writes
 *  the new one. residual NULL: no feedback. n = 0: s is 0. The gradient is only read.
 *  @collective{none} @errors none */
enum status feedback_encode(const float *gradient, int64_t n, float *residual, unsigned char *code);

/** x (n) = the decoded numbers; with `add`, x += the decoded numbers.  @collective{none} @errors none */
enum status feedback_decode(const unsigned char *code, int64_t n, float *x, bool add);

/** x (count) = the sum over the group, the same bits on every rank: two collectives of codes.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status feedback_all_reduce(const struct group *, float *x, int64_t count, struct feedback *);
