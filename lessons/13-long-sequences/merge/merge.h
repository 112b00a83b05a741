/* A softmax over keys that are met in blocks: the contract of this exercise.
 *
 * A query q meets keys k[j] and values v[j], vectors of D numbers. Over all keys that it sees, attention is
 *
 *     s[j] = q . k[j]      lse = log sum_j e^s[j]      y = sum_j e^(s[j] - lse) v[j]
 *
 * (The factor 1 / sqrt(D) is in q already.) The keys are not all there at once: they come one by one, or in blocks, or
 * lie on other ranks. */
#pragma once

#include "lib/comm/comm.h"
#include <math.h>

enum { MERGE_D = 4 };

/* What a query has found among some keys. Among none: y = 0, lse = -INFINITY. */
struct found { double y[MERGE_D], lse; };

/* The same while keys still come: the largest score; the sum of e^(s[j] - most); and that of e^(s[j] - most) v[j]. */
struct running { double most, sum, y[MERGE_D]; };

/* A block of keys, of which the query sees all n. n may be 0. */
struct keys { int n; const double (*k)[MERGE_D], (*v)[MERGE_D]; };

/* ---- given ---- */
static inline double merge_dot(const double a[MERGE_D], const double b[MERGE_D]) {
    double sum = 0;
    for (int d = 0; d < MERGE_D; d++) sum += a[d] * b[d];
    return sum;
}
static inline struct running merge_none_yet(void) { return (struct running){.most = -INFINITY}; }

/* ---- to be written, in merge.c ---- */

/** One key more, with the score s (finite). Nothing may overflow, whatever the scores. @collective{none} */
enum status merge_key(struct running *, double s, const double v[MERGE_D]);

/** What has been found once no more keys come; there may have been none. @collective{none} */
enum status merge_close(const struct running *, struct found *);

/** *x, of some keys, becomes that of these keys and of the others that `more` has been found among. Either may be of no
 *  key at all. @collective{none} */
enum status merge_two(struct found *x, const struct found *more);

/** x[i] of each of n queries, the same queries on every rank of the group, becomes that over the keys of all ranks. On
 *  some ranks a query may see nothing; on all of them, then y = 0 and lse = -INFINITY. Sends two all-reduces: the
 *  largest of n numbers each, and the sums of n (1 + D). n is at most MERGE_MOST.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum { MERGE_MOST = 64 };
enum status merge_ranks(const struct group *, struct found *x, int n);

/** Backward, for one block: dq, dk[j] and dv[j] += what the block's keys contribute, where `all` is what q has found
 *  among all keys, of this block and of others, and dy the gradient of its y. With p[j] = e^(s[j] - lse):
 *
 *     dv[j] += p[j] dy     ds[j] = p[j] (dy . v[j] - dy . y)     dq += sum_j ds[j] k[j]     dk[j] += ds[j] q
 *  @collective{none} */
enum status merge_gradient(const double q[MERGE_D], const struct found *all, const double dy[MERGE_D],
                           const struct keys *block, double dq[MERGE_D], double (*dk)[MERGE_D], double (*dv)[MERGE_D]);
