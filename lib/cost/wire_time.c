#include "lib/cost/wire_time.h"

#include <math.h>

/* The number of the n ranks, `stride` apart, that lie in one unit of this level: the largest divisor of n that fits.
 * A rail has no two ranks of a group that takes another rank of each node. */
static int64_t inside(const struct cluster *c, int level, int64_t n, int64_t stride) {
    const struct level *l = &c->level[level];
    if (c->rails && level == 1 && stride % c->level[0].ranks) return 1;
    int64_t i = l->ranks == INT64_MAX ? n : l->ranks / stride;
    if (i > n) i = n;
    if (i < 1) i = 1;
    while (n % i) i--;
    return i;
}

int wire_level(const struct cluster *c, int64_t n, int64_t stride) {
    for (int l = 0; l < c->n_levels; l++) {
        int64_t i = inside(c, l, n, stride);
        n /= i, stride *= i;
        if (n == 1) return l;
    }
    return c->n_levels - 1;
}

/* ---- one level: i ranks with S bytes each; steps: sequential messages ---- */
static double ring(const struct level *l, double S, double i, double steps) {
    return (i - 1) / i * S / level_speed(l, S) + steps * l->alpha_s;
}
static double tree(const struct level *l, double S, double i, double pieces) {
    return S / (0.9 * level_speed(l, S)) + 2 * log2(i) * pieces * l->alpha_s;
}

/* n: ranks of the whole group; outermost: whether this is the outermost level that the group crosses. */
static double at_level(enum comm_op op, const struct level *l, double S, double i, double n, double pieces,
                       bool outermost) {
    if (i <= 1) return 0;
    if (op == COMM_BROADCAST || op == COMM_REDUCE) return S / level_speed(l, S) + log2(i) * pieces * l->alpha_s;
    if (op == COMM_BARRIER) return 2 * log2(i) * l->alpha_s;
    if (op == COMM_ALL_REDUCE) return 2 * fmin(ring(l, S, i, (i - 1) * pieces), tree(l, S, i, pieces));
    return ring(l, S, i, outermost ? (n - 1) * pieces : 0);
}

/* One ring over all n ranks: each link carries all of it, and the outermost is the slowest. */
static double one_ring(const struct cluster *c, enum comm_op op, double S, int64_t n, int64_t stride, double pieces) {
    const struct level *l = &c->level[wire_level(c, n, stride)];
    return (op == COMM_ALL_REDUCE ? 2 : 1) * ring(l, S, (double)n, (double)(n - 1) * pieces);
}

static bool is_ring(enum comm_op op) {
    return op == COMM_ALL_REDUCE || op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER;
}

static double all_to_all(const struct cluster *c, double S, int64_t n, int64_t stride, double pieces) {
    double longest = 0, alpha = 0;
    int64_t left = n, near = 1;
    for (int l = 0; l < c->n_levels && left > 1; l++) {
        int64_t i = inside(c, l, left, stride);
        if (i > 1) {
            longest = fmax(longest, S * (double)(n - near) / (double)n / level_speed(&c->level[l], S));
            alpha = c->level[l].alpha_s;
        }
        left /= i, stride *= i, near *= i;
    }
    return longest + (double)(n - 1) * pieces * alpha;
}

double wire_seconds(const struct cluster *c, enum comm_op op, double bytes, int64_t n, int64_t stride, int64_t pieces) {
    double seconds = c->call_s * (double)pieces, S = bytes;
    int64_t left = n;
    if (n <= 1 || op == COMM_RECV) return 0;
    if (op == COMM_ALL_TO_ALL) return seconds + all_to_all(c, bytes, n, stride, (double)pieces);
    if (op == COMM_SEND) {
        const struct level *l = &c->level[wire_level(c, n, stride)];
        return seconds + bytes / level_speed(l, bytes) + (double)pieces * l->alpha_s;
    }
    if (c->stack.rings && is_ring(op)) return seconds + one_ring(c, op, bytes, n, stride, (double)pieces);
    for (int l = 0; l < c->n_levels && left > 1; l++) {
        int64_t i = inside(c, l, left, stride);
        seconds += at_level(op, &c->level[l], S, (double)i, (double)n, (double)pieces, i == left);
        S /= (double)i, left /= i, stride *= i;
    }
    return seconds;
}
