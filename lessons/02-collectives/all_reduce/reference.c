/* All-reduce from sends and receives, by three algorithms. all_reduce.h has their messages and costs.
 *
 * Each step is an exchange: start the receive, start the send, wait for both. If every rank waited for its send first,
 * all ranks would wait forever. */
#include "lessons/02-collectives/all_reduce/all_reduce.h"

#include "lib/comm/comm_request.h"

/* A piece of x: elements [first, first + n). */
struct piece { int64_t first, n; };

/* Parts [from, to) of x cut into `parts`. */
static struct piece parts_of(int64_t count, int parts, int from, int to) {
    int64_t first = all_reduce_first(count, parts, from);
    return (struct piece){first, all_reduce_first(count, parts, to) - first};
}

static enum status send_to(const struct group *g, const float *x, int64_t n, int to) {
    struct comm_request out;
    TRY(comm_send_start(g, x, n, FP32, to, 0, &out));
    return comm_wait(&out);
}
static enum status receive_from(const struct group *g, float *x, int64_t n, int from) {
    struct comm_request in;
    TRY(comm_recv_start(g, x, n, FP32, from, 0, &in));
    return comm_wait(&in);
}
/* Send and receive at the same time, with one peer or two. */
static enum status exchange(const struct group *g, const float *out, int64_t n_out, int to, float *in, int64_t n_in,
                            int from) {
    struct comm_request receive, send;
    TRY(comm_recv_start(g, in, n_in, FP32, from, 0, &receive));
    TRY(comm_send_start(g, out, n_out, FP32, to, 0, &send));
    TRY(comm_wait(&receive));
    return comm_wait(&send);
}

static void add(float *x, const float *more, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += more[i];
}

/* ---- ring ---- */

/* Step s: send part r - 1 - s, receive part r - 2 - s and add it to this rank's. Part p starts at rank p + 1 and is
 * complete at rank p. */
enum status reduce_scatter_ring(const struct group *g, float *x, int64_t count, float *scratch) {
    int n = group_size(g), r = group_rank(g), right = (r + 1) % n, left = (r + n - 1) % n;
    for (int s = 0; s < n - 1; s++) {
        int mine = (r - 1 - s + 2 * n) % n, next = (r - 2 - s + 2 * n) % n;
        struct piece out = parts_of(count, n, mine, mine + 1), in = parts_of(count, n, next, next + 1);
        TRY(exchange(g, x + out.first, out.n, right, scratch, in.n, left));
        add(x + in.first, scratch, in.n);
    }
    return OK;
}

/* Step s: send part r - s, and receive part r - 1 - s into its place. */
enum status all_gather_ring(const struct group *g, float *x, int64_t count) {
    int n = group_size(g), r = group_rank(g), right = (r + 1) % n, left = (r + n - 1) % n;
    for (int s = 0; s < n - 1; s++) {
        int mine = (r - s + n) % n, next = (r - 1 - s + n) % n;
        struct piece out = parts_of(count, n, mine, mine + 1), in = parts_of(count, n, next, next + 1);
        TRY(exchange(g, x + out.first, out.n, right, x + in.first, in.n, left));
    }
    return OK;
}

enum status all_reduce_ring(const struct group *g, float *x, int64_t count, float *scratch) {
    TRY(reduce_scatter_ring(g, x, count, scratch));
    return all_gather_ring(g, x, count);
}

/* ---- tree ---- */

/* Up: in the round of distance d, ranks whose lowest set bit is d send their sum to r - d. Down: the same edges, in
 * opposite direction and order. */
enum status all_reduce_tree(const struct group *g, float *x, int64_t count, float *scratch) {
    int n = group_size(g), r = group_rank(g), d = 1;
    for (; d < n && !(r & d); d *= 2) {
        if (r + d >= n) continue;
        TRY(receive_from(g, scratch, count, r + d));
        add(x, scratch, count);
    }
    if (r > 0) {
        TRY(send_to(g, x, count, r - d));
        TRY(receive_from(g, x, count, r - d));
    }
    for (d /= 2; d > 0; d /= 2)
        if (r + d < n) TRY(send_to(g, x, count, r + d));
    return OK;
}

/* ---- halving and doubling ---- */

/* Both phases use the same pairs. In the round of distance d each rank keeps d parts; the rank whose bit d is set keeps
 * the upper ones. */
static enum status halving(const struct group *g, float *x, int64_t count, float *scratch, int p) {
    int r = group_rank(g), from = 0;
    for (int d = p / 2; d > 0; d /= 2) {
        bool upper = r & d;
        struct piece low = parts_of(count, p, from, from + d), high = parts_of(count, p, from + d, from + 2 * d);
        struct piece keep = upper ? high : low, give = upper ? low : high;
        TRY(exchange(g, x + give.first, give.n, r ^ d, scratch, keep.n, r ^ d));
        add(x + keep.first, scratch, keep.n);
        from += upper ? d : 0;
    }
    return OK;
}

static enum status doubling(const struct group *g, float *x, int64_t count, int p) {
    int r = group_rank(g);
    for (int d = 1; d < p; d *= 2) {
        int mine = r & ~(d - 1), theirs = mine ^ d;      /* the first of the d parts of this rank, and of its
                                                          * partner */
        struct piece out = parts_of(count, p, mine, mine + d), in = parts_of(count, p, theirs, theirs + d);
        TRY(exchange(g, x + out.first, out.n, r ^ d, x + in.first, in.n, r ^ d));
    }
    return OK;
}

enum status all_reduce_halving_doubling(const struct group *g, float *x, int64_t count, float *scratch) {
    int n = group_size(g), r = group_rank(g), p = 1;
    while (2 * p <= n) p *= 2;
    if (r >= p) {
        TRY(send_to(g, x, count, r - p));
        return receive_from(g, x, count, r - p);
    }
    if (r + p < n) {
        TRY(receive_from(g, scratch, count, r + p));
        add(x, scratch, count);
    }
    TRY(halving(g, x, count, scratch, p));
    TRY(doubling(g, x, count, p));
    return r + p < n ? send_to(g, x, count, r + p) : OK;
}
