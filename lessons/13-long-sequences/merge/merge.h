/* A softmax over keys that come in blocks: the contract of this exercise.
 *
 * A query q has keys k[j] and values v[j], vectors of D numbers. Over all keys that q sees, attention is
 *
 *     s[j] = q . k[j]      lse = log sum_j e^s[j]      y = sum_j e^(s[j] - lse) v[j]
 *
 * (q already includes the factor 1 / sqrt(D).) The keys are not available all at once: they come one by one, or in
 * blocks, or are on other ranks. */
#pragma once

#include "lib/comm/comm.h"
#include <math.h>

enum { MERGE_D = 4 };

/* A query's attention over some keys. Over no keys: y = 0, lse = -INFINITY. */
struct found { double y[MERGE_D], lse; };

/* The state while keys still come. most: the largest score; sum: of e^(s[j] - most); y: sum of e^(s[j] - most) v[j]. */
struct running { double most, sum, y[MERGE_D]; };

/* A block of n >= 0 keys. The query sees all of them. */
struct keys { int n; const double (*k)[MERGE_D], (*v)[MERGE_D]; };

/* ---- given ---- */
static inline double merge_dot(const double a[MERGE_D], const double b[MERGE_D]) {
    double sum = 0;
    for (int d = 0; d < MERGE_D; d++) sum += a[d] * b[d];
    return sum;
}
static inline struct running merge_none_yet(void) { return (struct running){.most = -INFINITY}; }

/* ---- to be written, in merge.c ---- */

/** Add a key with the finite score s. No number may overflow, for any scores. @collective{none} */
enum status merge_key(struct running *, double s, const double v[MERGE_D]);

/** Compute the attention when all keys have come; there may be no key. @collective{none} */
enum status merge_close(const struct running *, struct found *);

/** Merge `more` into *x: *x becomes the attention over the keys of both, which have no key in common. Either may have
 *  no key. @collective{none} */
enum status merge_two(struct found *x, const struct found *more);

/** For n queries, the same on every rank of the group, x[i] becomes the attention over the keys of all ranks. A query
 *  may see no key on some ranks, or on all ranks; then y = 0 and lse = -INFINITY. Makes two all-reduces: COMM_MAX of n
 *  numbers and COMM_SUM of n (1 + D) numbers. n is at most MERGE_MOST.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum { MERGE_MOST = 64 };
enum status merge_ranks(const struct group *, struct found *x, int n);

/** Backward for one block: add the contributions of the block's keys to dq, dk[j] and dv[j]. `all` is the attention of
 *  q over the keys of all blocks, dy the gradient of its y. With p[j] = e^(s[j] - lse):
 *
 *     dv[j] += p[j] dy     ds[j] = p[j] (dy . v[j] - dy . y)     dq += sum_j ds[j] k[j]     dk[j] += ds[j] q
 *  @collective{none} */
enum status merge_gradient(const double q[MERGE_D], const struct found *all, const double dy[MERGE_D],
                           const struct keys *block, double dq[MERGE_D], double (*dk)[MERGE_D], double (*dv)[MERGE_D]);
