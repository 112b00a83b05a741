/* ranks: 2
 *
 * Minimal ring attention: one head, a sequence of T tokens cut zig-zag over any number of ranks, forward.
 *
 *     y[t] = sum over j <= t of e^(s[t,j] - lse[t]) v[j]     s[t,j] = q[t] . k[j]     lse[t] = log sum_j e^s[t,j]
 *
 * A query meets its keys a block at a time. For the keys so far it keeps the largest score M, the sum S of e^(s - M),
 * and the sum y of e^(s - M) v. A block with a larger score M' > M scales both sums down by e^(M - M'):
 *
 *     M' = max(M, max s)     S = S e^(M - M') + sum e^(s - M')     y = y e^(M - M') + sum e^(s - M') v
 *
 * Rank r has pieces r and 2n-1-r of 2n. While it computes with a block of keys and values, it sends the block to rank
 * r + 1 and receives the next from rank r - 1. After n hops every query has met every key. No rank ever has more than
 * two blocks, and all ranks compute the same number of pairs (t, j <= t).
 *
 * The result must equal that of one rank that has everything, which is the same code over a group of one. Sums are in
 * another order, so they are equal to rounding. cp/ does this to a GPT, with the backward. Source: Liu et al. 2023. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"
#include "lib/device/tensor.h"
#include <math.h>
#include <stdio.h>

enum { T = 32, D = 4 };

struct block { double k[T][D], v[T][D]; };   /* of the tokens of one rank, by local index */
struct query { double q[D], y[D], most, sum; };

/* Element d of the vector of token t, the same on every rank. */
static double element(const char *name, int64_t t, int d) {
    return 4 * rng_uniform(1, rng_stream(name), (uint64_t)(t * D + d)) - 2;
}

static struct axis tokens_of(int n, int rank) { return n > 1 ? axis_zigzag('T', T, n, rank) : axis_whole('T', T); }

static void fill(const struct axis *own, struct query *query, struct block *block) {
    for (int64_t i = 0; i < own->n; i++)
        for (int d = 0; d < D; d++) {
            int64_t t = axis_global(own, i);
            query[i].q[d] = element("q", t, d), query[i].y[d] = 0;
            query[i].most = -INFINITY, query[i].sum = 0;
            block->k[i][d] = element("k", t, d), block->v[i][d] = element("v", t, d);
        }
}

/* Let a query meet one more key. */
static void look(struct query *x, const double *k, const double *v) {
    double s = 0;
    for (int d = 0; d < D; d++) s += x->q[d] * k[d];
    double most = fmax(x->most, s), shrink = exp(x->most - most), weight = exp(s - most);
    for (int d = 0; d < D; d++) x->y[d] = x->y[d] * shrink + weight * v[d];
    x->sum = x->sum * shrink + weight;
    x->most = most;
}

static void meet(const struct axis *own, struct query *query, const struct axis *theirs, const struct block *block) {
    for (int64_t i = 0; i < own->n; i++)
        for (int64_t j = 0; j < theirs->n && axis_global(theirs, j) <= axis_global(own, i); j++)
            look(&query[i], block->k[j], block->v[j]);
}

/* query: of this rank's tokens. The caller still divides y by sum. */
static enum status attend(const struct group *group, struct query *query) {
    static struct block blocks[2];
    int n = group_size(group), rank = group_rank(group);
    const struct axis own = tokens_of(n, rank);
    fill(&own, query, &blocks[0]);
    for (int s = 0; s < n; s++) {
        const struct axis theirs = tokens_of(n, (rank - s + n) % n);
        struct comm_request send = {0}, receive = {0};
        if (s < n - 1) {
            TRY(comm_recv_start(group, &blocks[(s + 1) % 2], sizeof *blocks, UINT8, (rank - 1 + n) % n, 0, &receive));
            TRY(comm_send_start(group, &blocks[s % 2], sizeof *blocks, UINT8, (rank + 1) % n, 0, &send));
        }
        meet(&own, query, &theirs, &blocks[s % 2]);
        TRY(comm_wait(&receive));
        TRY(comm_wait(&send));
    }
    return OK;
}

static enum status compare(void) {
    static struct query ring[T], alone[T];
    double worst = 0;
    TRY(attend(group_world(), ring));
    TRY(attend(group_self(), alone));
    const struct axis own = tokens_of(comm_world_size(), comm_world_rank());
    for (int64_t i = 0; i < own.n; i++)
        for (int d = 0; d < D; d++) {
            const struct query *one = &alone[axis_global(&own, i)];
            worst = fmax(worst, fabs(ring[i].y[d] / ring[i].sum - one->y[d] / one->sum));
        }
    TRY(comm_all_reduce(group_world(), &worst, 1, FP64, COMM_MAX));
    if (comm_is_rank_0()) printf("%d tokens on %d ranks: the ring differs by %.0e\n", T, comm_world_size(), worst);
    return worst < 1e-12 ? OK : FAIL(E_INTERNAL, "the ring differs by %g", worst);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), compare());
    else status_report();
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
