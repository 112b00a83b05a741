/* ranks: 1 */
/* Exercise "levels": check, run and time the rows of all ranks in this process, without MPI. */
#include "lib/comm/hops/hop_simulate.h"
#include "lib/comm/hops/test_hop_world.h"

#include <math.h>

enum { ELEMENT = 8 };
enum placement { BLOCKS, ROUND, ANYHOW, N_PLACEMENTS };
static const char *const placements[] = {"in blocks", "dealt round the nodes", "in no order"};

/* N nodes of L ranks; node: the node of each rank. */
struct place { int L, N, node[16]; enum placement how; struct hop_shape shape; };

/* ANYHOW: ranks 3 r modulo n in blocks, which is a permutation if 3 does not divide n; otherwise backwards. */
static int node_of(int r, int L, int N, enum placement how) {
    int n = L * N;
    if (how == ROUND) return r % N;
    if (how == ANYHOW) r = n % 3 ? 3 * r % n : n - 1 - r;
    return r / L;
}

static void place(struct place *p, int L, int N, enum placement how, int64_t count, int64_t segment, int64_t line) {
    *p = (struct place){.L = L, .N = N, .how = how};
    for (int r = 0; r < L * N; r++) p->node[r] = node_of(r, L, N, how);
    p->shape = (struct hop_shape){COMM_ALL_REDUCE, L * N, 0, count, segment, line, p->node};
}

static const char *told(const struct place *p) {
    static char text[160];
    snprintf(text, sizeof text, "%lld elements, %d ranks on %d nodes, %s", (long long)p->shape.count, p->shape.n, p->N,
             placements[p->how]);
    return text;
}

static void rows_of(const struct place *p, int rank, struct hop_table *table) {
    assert_ok(hops_make(comm_algorithm_find("hierarchical"), &p->shape, rank, table));
    if (table->n == 0 && p->shape.count > 0) fail_msg("%s: rank %d has no rows", told(p), rank);
}

/* ---- sums ---- */

static void sums_are_right(const struct place *p) {
    struct hop_table table;
    rows_of(p, 0, &table);
    hop_table_free(&table);
    const char *wrong = run(comm_algorithm_find("hierarchical"), &p->shape, 3);
    if (wrong) fail_msg("%s: %s", told(p), wrong);
}

TEST(test_levels_every_term_once) {
    static const struct { int L, N; } sizes[] = {{2, 2}, {4, 2}, {2, 4}, {3, 2}, {1, 4}, {4, 1}, {4, 4}};
    for (int i = 0; i < 7; i++) {
        struct place p;
        place(&p, sizes[i].L, sizes[i].N, BLOCKS, 10 * sizes[i].L * sizes[i].N, 0, 1);
        sums_are_right(&p);
    }
}

TEST(test_levels_ranks_dealt_round_the_nodes) {
    for (enum placement how = ROUND; how < N_PLACEMENTS; how++)
        for (int L = 2; L <= 4; L++)
            for (int N = 2; N <= 4; N++) {
                struct place p;
                place(&p, L, N, how, 10 * L * N, 0, 1);
                sums_are_right(&p);
            }
}

TEST(test_levels_parts_that_do_not_divide) {
    for (int L = 2; L <= 4; L++)
        for (int N = 2; N <= 3; N++) {
            const int64_t counts[] = {1, L, L * N - 1, L * N + 1, 101};
            for (int c = 0; c < 5; c++)
                for (int lines = 0; lines < 2; lines++) {
                    struct place p;
                    place(&p, L, N, BLOCKS, counts[c], lines ? 5 : 0, lines ? 4 : 1);
                    sums_are_right(&p);
                }
        }
}

/* ---- senders, receivers, bytes ---- */

/* The k-th row that sends to a peer, or receives from it; NULL if there are fewer. */
static const struct hop_row *kth(const struct hop_table *table, bool sends, int peer, int k) {
    for (int i = 0; i < table->n; i++) {
        const struct hop_row *row = &table->hop[i];
        if (row->kind != HOP_COPY && (row->kind == HOP_SEND) == sends && row->peer == peer && k-- == 0) return row;
    }
    return NULL;
}

static void rows_fit(const struct place *p, const struct hop_table *table, int from, int to) {
    for (int k = 0;; k++) {
        const struct hop_row *sent = kth(&table[from], true, to, k), *taken = kth(&table[to], false, from, k);
        if (!sent && !taken) return;
        if (!taken) fail_msg("%s: rank %d sends %d messages to rank %d, which takes %d", told(p), from, k + 1, to, k);
        if (!sent) fail_msg("%s: rank %d waits for message %d of rank %d, which sends %d", told(p), to, k + 1, from, k);
        if (sent->first != taken->first || sent->count != taken->count)
            fail_msg("%s: rank %d sends elements [%lld, %lld) to rank %d, which takes them for [%lld, %lld)", told(p),
                     from, (long long)sent->first, (long long)(sent->first + sent->count), to, (long long)taken->first,
                     (long long)(taken->first + taken->count));
    }
}

TEST(test_levels_nobody_waits_forever) {
    for (int L = 1; L <= 4; L++)
        for (int N = 2; N <= 4; N++)
            for (enum placement how = BLOCKS; how < N_PLACEMENTS; how++) {
                struct place p;
                struct hop_table table[16];
                double seconds;
                const struct hop_links links = {{1e-3, 5e-3}, {1e-8, 1e-7}, 0, false};
                place(&p, L, N, how, 211, 0, 1);
                for (int r = 0; r < p.shape.n; r++) rows_of(&p, r, &table[r]);
                for (int r = 0; r < p.shape.n * p.shape.n; r++) rows_fit(&p, table, r / p.shape.n, r % p.shape.n);
                for (int r = 0; r < p.shape.n; r++) hop_table_free(&table[r]);
                if (hop_simulate(comm_algorithm_find("hierarchical"), &p.shape, ELEMENT, &links, NULL, NULL,
                                 &seconds) != OK)
                    fail_msg("%s: a rank waits for a message that another one sends only afterwards", told(&p));
            }
}

/* ---- bytes ---- */

static void bytes_are(const struct place *p, int between, double wanted, const char *formula) {
    for (int r = 0; r < p->shape.n; r++) {
        struct hop_table table;
        rows_of(p, r, &table);
        double sent = (double)hops_count(&table, &p->shape, r, FP64).bytes[between];
        hop_table_free(&table);
        if (sent != wanted)
            fail_msg("%s, S = %lld bytes: rank %d sends %.0f bytes %s, not %s = %.0f", told(p),
                     (long long)(p->shape.count * ELEMENT), r, sent, between ? "to other nodes" : "inside its node",
                     formula, wanted);
    }
}

/* L and N divide the counts, so that bytes are whole numbers. */
TEST(test_levels_bytes_between_nodes) {
    for (int L = 1; L <= 4; L++)
        for (int N = 2; N <= 4; N++)
            for (enum placement how = BLOCKS; how < N_PLACEMENTS; how++) {
                struct place p;
                place(&p, L, N, how, 30 * L * N, 0, 1);
                bytes_are(&p, 1, 2.0 * 30 * ELEMENT * (N - 1), "2 (S/L) (N-1)/N");
            }
}

TEST(test_levels_bytes_inside_a_node) {
    for (int L = 1; L <= 4; L++)
        for (int N = 2; N <= 4; N++) {
            struct place p;
            place(&p, L, N, BLOCKS, 30 * L * N, 0, 1);
            bytes_are(&p, 0, 2.0 * 30 * N * ELEMENT * (L - 1), "2 S (L-1)/L");
        }
}

/* ---- seconds ---- */

/* Links that have one cost each, so that each term of the formula is checked alone. */
static const struct { const char *what; struct hop_links links; } costs[] = {
    {"messages inside a node take 1 s, and nothing else takes time", {{1, 0}, {0, 0}, 0, false}},
    {"messages between nodes take 1 s, and nothing else takes time", {{0, 1}, {0, 0}, 0, false}},
    {"bytes inside a node take 1 ms each, and nothing else takes time", {{0, 0}, {1e-3, 0}, 0, false}},
    {"bytes between nodes take 1 ms each, and nothing else takes time", {{0, 0}, {0, 1e-3}, 0, false}},
    {"adding takes 1 ms a byte, and nothing else takes time", {{0, 0}, {0, 0}, 1e-3, false}},
    {"all of it takes time", {{1e-3, 5e-3}, {1e-8, 1e-7}, 3e-10, false}},
};
enum { N_COSTS = sizeof costs / sizeof *costs };

static double expected_seconds(const struct place *p, const struct hop_links *links) {
    double L = p->L, N = p->N, S = (double)p->shape.count * ELEMENT, g = links->s_per_byte_added;
    return 2 * (L - 1) * (links->latency_s[0] + S / L * links->s_per_byte[0]) + (L - 1) * S / L * g +
           2 * (N - 1) * (links->latency_s[1] + S / (L * N) * links->s_per_byte[1]) + (N - 1) * S / (L * N) * g;
}

typedef double clock_of(const struct place *, const struct hop_links *);
static double by_rows(const struct place *p, const struct hop_links *links) {
    struct hop_table table;
    double seconds;
    rows_of(p, 0, &table);
    hop_table_free(&table);
    assert_ok(hop_simulate(comm_algorithm_find("hierarchical"), &p->shape, ELEMENT, links, NULL, NULL, &seconds));
    return seconds;
}
static double by_form(const struct place *p, const struct hop_links *links) {
    return comm_algorithm_find("hierarchical")->form(&p->shape, (double)(p->shape.count * ELEMENT), links).seconds;
}

static void seconds_are_right(clock_of *seconds_of, const char *whose) {
    for (int L = 1; L <= 4; L++)
        for (int N = 2; N <= 4; N++)
            for (int c = 0; c < N_COSTS; c++) {
                struct place p;
                place(&p, L, N, BLOCKS, 4096 * L * N, 0, 1);
                double seconds = seconds_of(&p, &costs[c].links), wanted = expected_seconds(&p, &costs[c].links);
                if (!(fabs(seconds - wanted) <= 1e-12 * wanted))
                    fail_msg("%s; where %s: %s %.9g s, not %.9g s", told(&p), costs[c].what, whose, seconds, wanted);
            }
}

TEST(test_levels_takes_these_seconds) {
    seconds_are_right(by_rows, "the rows take");
}

TEST(test_levels_closed_form) {
    struct place p;
    place(&p, 4, 2, BLOCKS, 80, 0, 1);
    struct hop_form form = comm_algorithm_find("hierarchical")->form(&p.shape, 640, &costs[0].links);
    if (form.messages != 8) fail_msg("%s: %g messages, not 2 (L-1) + 2 (N-1) = 8", told(&p), form.messages);
    if (form.bytes != 1120)
        fail_msg("%s, S = 640: %g bytes, not 2 S (L-1)/L + 2 (S/L) (N-1)/N = 1120", told(&p), form.bytes);
    seconds_are_right(by_form, "levels_seconds says");
}

TESTS(unit_test(test_levels_every_term_once), unit_test(test_levels_nobody_waits_forever),
      unit_test(test_levels_bytes_between_nodes), unit_test(test_levels_bytes_inside_a_node),
      unit_test(test_levels_ranks_dealt_round_the_nodes), unit_test(test_levels_parts_that_do_not_divide),
      unit_test(test_levels_takes_these_seconds), unit_test(test_levels_closed_form))
