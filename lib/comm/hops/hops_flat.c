/* Algorithms without nodes or trees: between all pairs, round a ring, or through one rank.
 *
 *   pairwise   each rank sends to every peer the part that the peer sums, and then its own sum to all. All messages of
 *              a phase are in flight at once
 *   ring       part p starts at rank p + 1 and goes round once, and each rank on its way adds its own terms; then the
 *              sums go round once more. Every rank exchanges messages only with its two neighbors
 *   main       one rank receives all terms, adds them, and sends the sum back, as torch.nn.DataParallel and a single
 *              parameter server do. Its link carries n - 1 times the bytes of the others' links */
#include "lib/comm/hops/hop_rows.h"

#include "lib/base/integer.h"

#include <math.h>

#define OP(op) (1u << COMM_##op)

static double added(const struct hop_links *links, double bytes) { return bytes * links->s_per_byte_added; }

/* n - 1 terms come over one link, one after the other, and each is added after it has come. The shorter of transfer and
 * addition is hidden behind the longer one, except at the ends: no term is added before the first has come, and the
 * last is added after all transfers. */
static double taken_and_added(const struct hop_links *links, int n, double bytes) {
    double coming = bytes * links->s_per_byte[0], adding = added(links, bytes);
    return coming + adding + (n - 2) * fmax(coming, adding);
}

/* Does the operation have a phase of sums? Does it have a phase of gathering? */
static bool sums(enum comm_op op) { return op == COMM_ALL_REDUCE || op == COMM_REDUCE_SCATTER; }
static bool gathers(enum comm_op op) { return op == COMM_ALL_REDUCE || op == COMM_ALL_GATHER; }

/* ---- pairwise ---- */

/* This rank's sum is made directly in the result, without scratch. It adds the terms of rank r - 1, then of r - 2,
 * ... */
static void pairwise_sum(const struct hop_shape *shape, const struct team *team) {
    bool scatter = shape->op == COMM_REDUCE_SCATTER;
    struct range own = team_piece(team, team->me), sum = scatter ? (struct range){0, shape->count} : own;
    if (scatter) hop_copy(team, HOP_TO, 0, HOP_FROM, own);
    for (int k = 1; k < team->n; k++)
        hop_send_from(team, scatter ? HOP_FROM : HOP_TO, team_rank(team, team->me + k), team_piece(team, team->me + k));
    for (int k = 1; k < team->n; k++) hop_add(team, team_rank(team, team->me - k), sum);
}

/* A rank sends its own sum before it receives any. Within a machine a receive copies a whole part at once; meanwhile
 * the rank adds nothing, and peers would wait. */
static void pairwise_gather(const struct team *team) {
    for (int k = 1; k < team->n; k++) hop_send(team, team_rank(team, team->me + k), team_piece(team, team->me));
    for (int k = 1; k < team->n; k++) hop_recv(team, team_rank(team, team->me - k), team_piece(team, team->me - k));
}

static void pairwise_all_to_all(const struct team *team) {
    for (int k = 1; k < team->n; k++) hop_recv(team, team_rank(team, team->me - k), team_piece(team, team->me - k));
    for (int k = 1; k < team->n; k++)
        hop_send_from(team, HOP_FROM, team_rank(team, team->me + k), team_piece(team, team->me + k));
}

static void pairwise_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    struct team team = team_of_all(shape, rank, table), late = team;
    team.space = late.space = HOP_TO;
    late.segment *= 8;        /* rows may be longer, because nothing is added to them, but a copy makes peers wait */
    late.after_sums = true;
    if (sums(shape->op)) pairwise_sum(shape, &team);
    else hop_copy_in(shape, &team);
    if (gathers(shape->op)) pairwise_gather(&late);
    if (shape->op == COMM_ALL_TO_ALL) pairwise_all_to_all(&late);
}

static struct hop_form pairwise_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    int n = shape->n, phases = shape->op == COMM_ALL_REDUCE ? 2 : 1;
    double sent = phases * bytes * (n - 1) / n;
    double a = links->latency_s[0], all = a + bytes * (n - 1) / n * links->s_per_byte[0];
    double sum = a + taken_and_added(links, n, bytes / n);
    double seconds = (sums(shape->op) ? sum : 0) + (gathers(shape->op) || shape->op == COMM_ALL_TO_ALL ? all : 0);
    return (struct hop_form){phases * (n - 1), sent, seconds};
}

const struct comm_algorithm hops_pairwise = {
    "pairwise", "every rank sends to each peer the part that the peer sums, and then its own sum to all",
    "2 (n-1)", "2 S (n-1)/n", "2 a + S/n (n-1) b + S/n (b + g + (n-2) max(b, g))",
    OP(ALL_REDUCE) | OP(REDUCE_SCATTER) | OP(ALL_GATHER) | OP(ALL_TO_ALL), NULL, NULL, pairwise_rows, pairwise_form,
};

/* ---- ring ---- */

void ring_reduce_scatter(const struct team *team) {
    int right = team_rank(team, team->me + 1), left = team_rank(team, team->me - 1);
    for (int k = 1; k < team->n; k++) {
        hop_send(team, right, team_piece(team, team->me - k));
        hop_add(team, left, team_piece(team, team->me - k - 1));
    }
}

void ring_all_gather(const struct team *team) {
    int right = team_rank(team, team->me + 1), left = team_rank(team, team->me - 1);
    for (int k = 0; k < team->n - 1; k++) {
        hop_send(team, right, team_piece(team, team->me - k));
        hop_recv(team, left, team_piece(team, team->me - k - 1));
    }
}

/* Along the ring, from the root or to it. Each rank except the last forwards what it receives, segment by segment. */
static void ring_broadcast(const struct hop_shape *shape, const struct team *team) {
    int place = (team->me - shape->root + team->n) % team->n;
    if (place > 0) hop_recv(team, team_rank(team, team->me - 1), team->whole);
    if (place < team->n - 1) hop_send(team, team_rank(team, team->me + 1), team->whole);
}
static void ring_reduce(const struct hop_shape *shape, const struct team *team) {
    int place = (team->me - shape->root + team->n) % team->n;
    if (place != 1) hop_add(team, team_rank(team, team->me - 1), team->whole);
    if (place != 0) hop_send(team, team_rank(team, team->me + 1), team->whole);
}

static void ring_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    struct team team = team_of_all(shape, rank, table);
    hop_copy_in(shape, &team);
    if (sums(shape->op)) ring_reduce_scatter(&team);
    if (gathers(shape->op)) ring_all_gather(&team);
    if (shape->op == COMM_BROADCAST) ring_broadcast(shape, &team);
    if (shape->op == COMM_REDUCE) ring_reduce(shape, &team);
    hop_copy_out(shape, &team);
}

static struct hop_form ring_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    int n = shape->n, phases = shape->op == COMM_ALL_REDUCE ? 2 : 1;
    double a = links->latency_s[0], b = links->s_per_byte[0];
    if (shape->op == COMM_BROADCAST || shape->op == COMM_REDUCE) return (struct hop_form){1, bytes, NAN};
    double sent = phases * bytes * (n - 1) / n, seconds = phases * (n - 1) * a + sent * b;
    return (struct hop_form){phases * (n - 1), sent,
                             seconds + (sums(shape->op) ? added(links, bytes * (n - 1) / n) : 0)};
}

const struct comm_algorithm hops_ring = {
    "ring", "each part goes round once and is added to at every rank, and its sum goes round once more",
    "2 (n-1)", "2 S (n-1)/n", "2 (n-1) a + 2 S (n-1)/n b + S (n-1)/n g",
    OP(ALL_REDUCE) | OP(REDUCE_SCATTER) | OP(ALL_GATHER) | OP(BROADCAST) | OP(REDUCE), NULL, NULL, ring_rows, ring_form,
};

/* ---- main ---- */

/* Segment by segment: the sums of the first segments go back while terms of later ones still come. */
static void main_segment(const struct hop_shape *shape, const struct team *team, int root, struct range x) {
    bool adds = shape->op != COMM_BROADCAST, gives = shape->op != COMM_REDUCE;
    if (team->me != root && adds) hop_send(team, root, x);
    if (team->me != root && gives) hop_recv(team, root, x);
    for (int p = 0; p < team->n && team->me == root; p++)
        if (p != root && adds) hop_add(team, p, x);
    for (int p = 0; p < team->n && team->me == root; p++)
        if (p != root && gives) hop_send(team, p, x);
}

static void main_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    struct team team = team_of_all(shape, rank, table);
    int root = shape->op == COMM_ALL_REDUCE ? 0 : shape->root;
    hop_copy_in(shape, &team);
    for (int64_t i = 0; i < hop_segments(&team, team.whole); i++)
        main_segment(shape, &team, root, hop_segment(&team, team.whole, i));
}

static struct hop_form main_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    double a = links->latency_s[0], b = links->s_per_byte[0], others = shape->n - 1;
    double in = a + taken_and_added(links, shape->n, bytes), out = a + others * bytes * b;
    struct hop_form reduce = {1, bytes, in}, broadcast = {others, others * bytes, out};
    if (shape->op == COMM_REDUCE) return reduce;
    if (shape->op == COMM_BROADCAST) return broadcast;
    return (struct hop_form){others, others * bytes, in + out};
}

const struct comm_algorithm hops_main = {
    "main", "all that ranks have goes to rank 0, which adds it up and sends the sum back",
    "rank 0: n-1, others 1", "rank 0: S (n-1), others S", "2 a + S (n-1) b + S (b + g + (n-2) max(b, g))",
    OP(ALL_REDUCE) | OP(REDUCE) | OP(BROADCAST), NULL, NULL, main_rows, main_form,
};

/* ---- a message ---- */
/* A point-to-point message as a table of one row; shape.root is the peer. So emulated links need no special case for
 * it. */

static void message_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    struct team team = team_of_all(shape, rank, table);
    team.segment = 0;
    if (shape->op == COMM_SEND) hop_send_from(&team, HOP_FROM, shape->root, team.whole);
    else hop_recv(&team, shape->root, team.whole);
}

const struct comm_algorithm hops_message = {
    "message", "one message", "1", "S", "a + S b", OP(SEND) | OP(RECV), NULL, NULL, message_rows, NULL,
};
