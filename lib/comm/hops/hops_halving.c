/* Halving and doubling: partners at distance 1, 2, 4, ... or the other way round.
 *
 *   halving       step d = p/2, p/4, ..., 1: ranks v and v xor d halve the range that both have: each sends one half to
 *                 the other, and adds the other's terms to the half that it keeps. After log2 p steps rank v has the
 *                 sum of part v; the same steps backwards gather. Few messages, and the fewest bytes
 *   halving-near  the same with d = 1 first: the largest messages go to the nearest ranks, so that with nodes of 2^k
 *                 neighbors few bytes leave a node. Rank v then ends with another part than v, which is hidden in an
 *                 all_reduce. In a reduce_scatter, step d = 2^k sends the parts whose bit k differs from v's, and
 *                 keeps the others: n/2d rows each
 *   doubling      partners exchange *all* and both add: the fewest steps, for small buffers
 *
 * p is the largest power of two <= n. Each rank v >= p first sends all its terms to rank v - p, and gets the result at
 * the end.
 *
 * Order. halving-near and doubling add neighbors first: with a power of two of ranks every sum is the tree (0 + 1) + (2
 * + 3) over them, on every rank, as x + y and y + x have the same bits. Sums that must be the same in every layout use
 * this (comm_fix_sums).
 *
 * Same bits: of the two partners in a doubling, one computes x + y and the other y + x, which have the same bits. */
#include "lib/comm/hops/hop_rows.h"

#include <math.h>

#define OP(op) (1u << COMM_##op)

static int power_of_two(int n) {
    int p = 1;
    while (p * 2 <= n) p *= 2;
    return p;
}
static int log2_of(int p) {
    int k = 0;
    while (1 << k < p) k++;
    return k;
}
/* Does it fit? If each rank must end with its own part, n must be a power of two. */
static bool fits(const struct hop_shape *shape) {
    return shape->op == COMM_ALL_REDUCE || power_of_two(shape->n) == shape->n;
}

/* The log2 p distances between partners, the same on all p ranks. */
struct steps { int n; bool near; };
static int distance(const struct steps *steps, int k) { return 1 << (steps->near ? k : steps->n - 1 - k); }

/* In step k a rank's range is cut in two: one half it keeps, the other goes to its partner. */
struct half { struct range mine, theirs; int partner; };
static struct half half_at(const struct team *team, const struct steps *steps, int k) {
    int lo = 0, hi = team->n;
    for (int i = 0;; i++) {
        int middle = (lo + hi) / 2, d = distance(steps, i);
        bool upper = team->me & d;
        struct range low = team_pieces(team, lo, middle), high = team_pieces(team, middle, hi);
        if (i == k) return (struct half){upper ? high : low, upper ? low : high, team_rank(team, team->me ^ d)};
        if (upper) lo = middle;
        else hi = middle;
    }
}

static void halve(const struct team *team, const struct steps *steps) {
    for (int k = 0; k < steps->n; k++) {
        struct half half = half_at(team, steps, k);
        hop_send(team, half.partner, half.theirs);
        hop_add(team, half.partner, half.mine);
    }
}
/* Nearest partner first: in step k a rank sends the parts whose bit k differs from its own, of those it still has. */
static void halve_parts(const struct team *team, const struct steps *steps) {
    for (int k = 0; k < steps->n; k++) {
        int d = 1 << k, partner = team_rank(team, team->me ^ d);
        for (int p = 0; p < team->n; p++)
            if ((p ^ team->me) % (2 * d) == d) hop_send(team, partner, team_piece(team, p));
        for (int p = 0; p < team->n; p++)
            if ((p ^ team->me) % (2 * d) == 0) hop_add(team, partner, team_piece(team, p));
    }
}
static void double_up(const struct team *team, const struct steps *steps) {
    for (int k = steps->n - 1; k >= 0; k--) {
        struct half half = half_at(team, steps, k);
        hop_send(team, half.partner, half.mine);
        hop_recv(team, half.partner, half.theirs);
    }
}
static void exchange_all(const struct team *team, const struct steps *steps) {
    for (int k = 0; k < steps->n; k++) {
        int partner = team_rank(team, team->me ^ 1 << k);
        hop_send(team, partner, team->whole);
        hop_add(team, partner, team->whole);
    }
}

/* Run rows() on the first p ranks. Each rank beyond p first sends its data to one of them, and at the end gets the
 * result back. */
static void with_the_rest(const struct hop_shape *shape, int rank, struct hop_table *table, bool near,
                          void (*rows)(const struct hop_shape *, const struct team *, const struct steps *)) {
    struct team all = team_of_all(shape, rank, table);
    int p = power_of_two(shape->n);
    const struct steps steps = {log2_of(p), near};
    hop_copy_in(shape, &all);
    if (rank >= p) {
        hop_send(&all, rank - p, all.whole);
        hop_recv(&all, rank - p, all.whole);
        return;
    }
    bool has_a_guest = rank + p < shape->n;
    if (has_a_guest) hop_add(&all, rank + p, all.whole);
    struct team team = p == shape->n ? all : team_of(shape, NULL, p, rank, all.whole, &all);
    rows(shape, &team, &steps);
    if (has_a_guest) hop_send(&all, rank + p, all.whole);
    hop_copy_out(shape, &all);
}

static void halving(const struct hop_shape *shape, const struct team *team, const struct steps *steps) {
    bool own_part = steps->near && shape->op == COMM_REDUCE_SCATTER;
    if (own_part) halve_parts(team, steps);
    else if (shape->op != COMM_ALL_GATHER) halve(team, steps);
    if (shape->op != COMM_REDUCE_SCATTER) double_up(team, steps);
}
static void doubling(const struct hop_shape *shape, const struct team *team, const struct steps *steps) {
    (void)shape;
    exchange_all(team, steps);
}

static void halving_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    with_the_rest(shape, rank, table, false, halving);
}
static void halving_near_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    with_the_rest(shape, rank, table, true, halving);
}
static void doubling_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    with_the_rest(shape, rank, table, true, doubling);
}

/* If n is no power of two, a rank sends one more message of all elements. The time depends on other messages, so it is
 * simulated. */
static struct hop_form with_guests(const struct hop_shape *shape, struct hop_form form, double bytes) {
    if (power_of_two(shape->n) == shape->n) return form;
    return (struct hop_form){form.messages + 1, form.bytes + bytes, NAN};
}

static struct hop_form halving_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    int p = power_of_two(shape->n), steps = log2_of(p), phases = shape->op == COMM_ALL_REDUCE ? 2 : 1;
    double half = bytes * (p - 1) / p, sent = phases * half;
    double seconds = phases * steps * links->latency_s[0] + sent * links->s_per_byte[0] +
                     (shape->op == COMM_ALL_GATHER ? 0 : half * links->s_per_byte_added);
    return with_guests(shape, (struct hop_form){phases * steps, sent, seconds}, bytes);
}

/* A reduce_scatter sends each part as a row of its own, so its time is simulated. */
static struct hop_form halving_near_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    struct hop_form form = halving_form(shape, bytes, links);
    if (shape->op == COMM_REDUCE_SCATTER) form.messages = shape->n - 1, form.seconds = NAN;
    return form;
}

static struct hop_form doubling_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    int steps = log2_of(power_of_two(shape->n));
    double step = links->latency_s[0] + bytes * (links->s_per_byte[0] + links->s_per_byte_added);
    return with_guests(shape, (struct hop_form){steps, steps * bytes, steps * step}, bytes);
}

const struct comm_algorithm hops_halving = {
    "halving", "partners at distance n/2, n/4, ..., 1 share the sum half and half, and the same backwards to gather",
    "2 log2 n", "2 S (n-1)/n", "2 log2 n a + 2 S (n-1)/n b + S (n-1)/n g",
    OP(ALL_REDUCE) | OP(REDUCE_SCATTER) | OP(ALL_GATHER), fits,
    "a power of two, but for an all_reduce", halving_rows, halving_form,
};
const struct comm_algorithm hops_halving_near = {
    "halving-near", "halving with the nearest partner first, which gets the largest half",
    "2 log2 n", "2 S (n-1)/n", "2 log2 n a + 2 S (n-1)/n b + S (n-1)/n g",
    OP(ALL_REDUCE) | OP(REDUCE_SCATTER), fits, "a power of two, but for an all_reduce", halving_near_rows,
    halving_near_form,
};
const struct comm_algorithm hops_doubling = {
    "doubling", "partners at distance 1, 2, 4, ... exchange all they have, and both add",
    "log2 n", "S log2 n", "log2 n (a + S b + S g)",
    OP(ALL_REDUCE), NULL, NULL, doubling_rows, doubling_form,
};
