/* Signs with error feedback: the contract of this exercise. fp32, host memory.
 *
 *   term  = gradient + residual        what should have been sent so far, and was not
 *   s     = mean of |term|             summed in fp64, in the order of the elements, rounded to a float once
 *   sent  = +s or -s, by the sign of term; zero counts as positive
 *   left  = term - sent                the next residual
 *
 * The code of n floats, 4 + ceil(n/8) bytes, is the codec `sign` of lib/ops/codec.h: first the float s, as it lies in
 * memory, then a bit per element, 1 for -s. Element i is bit i % 8 of byte 4 + i / 8, bit 0 the least; bits beyond the
 * last element are 0. Bytes need not be aligned. If a term is not finite, s is NaN: the receiver must see it.
 *
 * Over a group of n ranks, elements are cut as in lib/comm/coded.h: part r is [coded_first(count, n, r), +
 * coded_own_count(count, n, r)), and a code has room for the longest part, b = feedback_bytes(coded_part(count, n)).
 *
 *   reduce-scatter   each rank encodes its terms part by part, with `residual`, and sends part r to rank r;
 *                    rank r decodes them and adds in rank order
 *   all-gather       the sum of the own part is encoded, with `sum_residual`, and sent to all, which decode it */
#pragma once

#include "lib/comm/coded.h"
#include "lib/comm/comm_request.h"

/* What an all-reduce needs in addition to its buffer. All borrowed. */
struct feedback {
    unsigned char *sent, *got;   /* (n b) bytes each */
    float *residual;             /* (count): of the own terms, zero before the first step; NULL: no feedback */
    float *sum_residual;         /* (own count): of the own part's sum, likewise */
};

/** Bytes of the code of n floats; n >= 0. @collective{none} */
int64_t feedback_bytes(int64_t n);

/** gradient (n) -> code, feedback_bytes(n) of them; residual (n) is added before, and is what was left out afterwards.
 *  residual NULL: no feedback, and nothing is kept. n = 0: s is 0. The gradient is only read.
 *  @collective{none} @errors none */
enum status feedback_encode(const float *gradient, int64_t n, float *residual, unsigned char *code);

/** x (n) = what the code stands for; with `add`, x += it.  @collective{none} @errors none */
enum status feedback_decode(const unsigned char *code, int64_t n, float *x, bool add);

/** x (count) = the sum over the group, the same bits on every rank: two collectives of codes.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status feedback_all_reduce(const struct group *, float *x, int64_t count, struct feedback *);
