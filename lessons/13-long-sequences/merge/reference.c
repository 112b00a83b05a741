/* A softmax over keys that come in blocks. Every exponent is a difference from the largest value so far, so it is at
 * most 0. A part without keys gets the factor 0 explicitly, because -INFINITY - -INFINITY is NaN. */
#include "lessons/13-long-sequences/merge/merge.h"

enum status merge_key(struct running *x, double s, const double v[MERGE_D]) {
    double most = fmax(x->most, s), shrink = exp(x->most - most), weight = exp(s - most);
    for (int d = 0; d < MERGE_D; d++) x->y[d] = x->y[d] * shrink + weight * v[d];
    x->sum = x->sum * shrink + weight;
    x->most = most;
    return OK;
}

enum status merge_close(const struct running *x, struct found *out) {
    *out = (struct found){.lse = -INFINITY};
    if (x->sum == 0) return OK;
    for (int d = 0; d < MERGE_D; d++) out->y[d] = x->y[d] / x->sum;
    out->lse = x->most + log(x->sum);
    return OK;
}

/* e^(lse - of); 0 for a part without keys. */
static double share(double lse, double of) { return lse == -INFINITY ? 0 : exp(lse - of); }

enum status merge_two(struct found *x, const struct found *more) {
    double most = fmax(x->lse, more->lse);
    if (most == -INFINITY) return OK;
    double lse = most + log(share(x->lse, most) + share(more->lse, most));
    double keep = share(x->lse, lse), add = share(more->lse, lse);
    for (int d = 0; d < MERGE_D; d++) x->y[d] = x->y[d] * keep + more->y[d] * add;
    x->lse = lse;
    return OK;
}

enum status merge_ranks(const struct group *group, struct found *x, int n) {
    double most[MERGE_MOST], sums[MERGE_MOST][1 + MERGE_D];
    for (int i = 0; i < n; i++) most[i] = x[i].lse;
    TRY(comm_all_reduce(group, most, n, FP64, COMM_MAX));
    for (int i = 0; i < n; i++) {
        sums[i][0] = share(x[i].lse, most[i]);
        for (int d = 0; d < MERGE_D; d++) sums[i][1 + d] = sums[i][0] * x[i].y[d];
    }
    TRY(comm_all_reduce(group, sums, n * (1 + MERGE_D), FP64, COMM_SUM));
    for (int i = 0; i < n; i++) {
        bool none = sums[i][0] == 0;
        x[i].lse = none ? -INFINITY : most[i] + log(sums[i][0]);
        for (int d = 0; d < MERGE_D; d++) x[i].y[d] = none ? 0 : sums[i][1 + d] / sums[i][0];
    }
    return OK;
}

enum status merge_gradient(const double q[MERGE_D], const struct found *all, const double dy[MERGE_D],
                           const struct keys *block, double dq[MERGE_D], double (*dk)[MERGE_D], double (*dv)[MERGE_D]) {
    double mean = merge_dot(dy, all->y);
    for (int j = 0; j < block->n; j++) {
        double p = exp(merge_dot(q, block->k[j]) - all->lse), ds = p * (merge_dot(dy, block->v[j]) - mean);
        for (int d = 0; d < MERGE_D; d++) {
            dv[j][d] += p * dy[d];
            dq[d] += ds * block->k[j][d];
            dk[j][d] += ds * q[d];
        }
    }
    return OK;
}
