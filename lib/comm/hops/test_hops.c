/* ranks: 1  device: cpu */
/* Tables of hops, all algorithms and operations, on up to 17 ranks of this process (test_hop_world.h). */
#include "lib/comm/hops/test_hop_world.h"

static const enum comm_op all_ops[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER,
                                       COMM_BROADCAST,  COMM_REDUCE,         COMM_ALL_TO_ALL};
enum { N_OPS = sizeof all_ops / sizeof *all_ops };

static void check(const struct comm_algorithm *algorithm, const struct hop_shape *shape) {
    if (!comm_algorithm_fits(algorithm, shape)) return;
    const char *wrong = run(algorithm, shape, 7u + (unsigned)shape->n);
    if (wrong)
        fail_msg("%s of %lld elements by %s on %d ranks, root %d, segments of %lld, %s: %s", comm_op_name(shape->op),
                 (long long)shape->count, algorithm->name, shape->n, shape->root, (long long)shape->segment,
                 shape->node ? "nodes" : "one node", wrong);
}

/* Numbers of elements: none, fewer than ranks, as many as ranks, uneven parts, many; without and with segments. */
TEST(test_every_algorithm_does_every_operation) {
    for (int a = 0; comm_algorithms[a]; a++)
        for (int o = 0; o < N_OPS; o++)
            for (int n = 2; n <= MAX_RANKS; n++) {
                const int64_t counts[] = {0, 1, n - 1, n, 3 * n + 1, 211};
                for (int c = 0; c < 6; c++)
                    for (int64_t segment = 0; segment <= 7; segment += 7)
                        for (int root = 0; root < n; root += n - 1)
                            check(comm_algorithms[a], &(struct hop_shape){all_ops[o], n, root, counts[c], segment,
                                                                          segment ? 4 : 1, NULL});
            }
}

/* per_node ranks are on each node, in blocks or dealt to the nodes in turn. */
TEST(test_algorithms_on_nodes) {
    for (int n = 2; n <= 16; n++)
        for (int per_node = 1; per_node <= n; per_node++)
            for (int cyclic = 0; cyclic < 2; cyclic++) {
                int node[MAX_RANKS];
                if (n % per_node) continue;
                for (int r = 0; r < n; r++) node[r] = cyclic ? r % (n / per_node) : r / per_node;
                for (int a = 0; comm_algorithms[a]; a++)
                    check(comm_algorithms[a], &(struct hop_shape){COMM_ALL_REDUCE, n, 0, 10 * n + 3, 5, 4, node});
            }
}

/* ---- same bits ---- */

/* Write all ranks' sums, one rank after the other. The sum of these numbers depends on the order of additions. */
static void sums_in_some_order(const struct comm_algorithm *algorithm, const struct hop_shape *shape, unsigned seed,
                               double *sums) {
    struct world world = {
        .n = shape->n, .adds = true, .pair = calloc((size_t)(shape->n * shape->n), sizeof *world.pair)};
    struct rank rank[MAX_RANKS];
    srand(seed);
    for (int r = 0; r < shape->n; r++) {
        world.at[r].world = &world, world.at[r].rank = r;
        open_rank(algorithm, shape, &world, &in_process, r, &rank[r]);
        for (int64_t i = 0; i < shape->count; i++) ((double *)rank[r].to)[i] = 1 / (1.0 + r + (double)i);
    }
    for (int n_done = 0, left = 100000; n_done < shape->n; left--) {
        struct rank *x = &rank[rand() % shape->n];
        assert_true(left > 0);
        if (x->done) continue;
        assert_ok(hop_walk_push(x->walk, &x->done));
        n_done += x->done;
    }
    for (int r = 0; r < shape->n; r++) {
        memcpy(sums + r * shape->count, rank[r].to, (size_t)(8 * shape->count));
        close_rank(&rank[r]);
    }
    free(world.pair);
}

TEST(test_sums_are_the_same_bits_whatever_comes_first) {
    enum { N = 60 };
    static double first[MAX_RANKS * N], again[MAX_RANKS * N];
    for (int a = 0; comm_algorithms[a]; a++)
        for (int n = 2; n <= MAX_RANKS; n++) {
            const struct hop_shape shape = {COMM_ALL_REDUCE, n, 0, N, 4, 1, NULL};
            sums_in_some_order(comm_algorithms[a], &shape, 1, first);
            for (int r = 1; r < n; r++) assert_memory_equal(first, first + r * N, N * sizeof *first);
            for (unsigned seed = 2; seed < 5; seed++) {
                sums_in_some_order(comm_algorithms[a], &shape, seed, again);
                assert_memory_equal(first, again, (size_t)n * N * sizeof *first);
            }
        }
}

/* ---- a rank sends its sum before it receives others ---- */

/* The order in which rank 0 begins sends (S) and receives (R). */
static char begun[64];
static void note(void *self, char what) {
    if (((struct at *)self)->rank == 0) strncat(begun, (char[]){what, 0}, sizeof begun - strlen(begun) - 1);
}
static enum status noted_send(void *self, int peer, const void *from, int64_t bytes, struct hop_ticket *ticket) {
    note(self, 'S');
    return world_send(self, peer, from, bytes, ticket);
}
static enum status noted_receive(void *self, int peer, void *to, int64_t bytes, struct hop_ticket *ticket) {
    note(self, 'R');
    return world_receive(self, peer, to, bytes, ticket);
}

/* Rank 1 has already sent its sum when rank 0 begins to add. Rank 0 receives four terms, sends its own sum, and only
 * then receives rank 1's. */
TEST(test_a_sum_is_given_before_another_is_taken) {
    static const struct hop_transport noted = {NULL, noted_send, noted_receive, world_done, world_union};
    const struct hop_shape shape = {COMM_ALL_REDUCE, 2, 0, 32, 4, 1, NULL};
    struct world world = {.n = 2, .pair = calloc(4, sizeof *world.pair)};
    struct rank rank[2];
    begun[0] = 0;
    for (int r = 0; r < 2; r++) {
        world.at[r].world = &world, world.at[r].rank = r;
        open_rank(comm_algorithm_find("pairwise"), &shape, &world, &noted, r, &rank[r]);
    }
    for (int turn = 0; turn < 4; turn++) assert_ok(hop_walk_push(rank[turn % 2].walk, &rank[turn % 2].done));
    assert_string_equal(begun, "SSSSRRRRSR");
    assert_ok(hop_walk_push(rank[0].walk, &rank[0].done));
    for (int r = 0; r < 2; r++) {
        assert_true(rank[r].done);
        assert_null(rank_is_wrong(&shape, r, &rank[r]));
        close_rank(&rank[r]);
    }
    free(world.pair);
}

TEST(test_unequal_nodes_are_not_hierarchical) {
    const int node[] = {0, 0, 0, 1, 1};
    assert_false(comm_algorithm_fits(comm_algorithm_find("hierarchical"),
                                     &(struct hop_shape){COMM_ALL_REDUCE, 5, 0, 100, 0, 1, node}));
    assert_null(comm_algorithm_find("rings"));
}

TESTS(unit_test(test_every_algorithm_does_every_operation), unit_test(test_algorithms_on_nodes),
      unit_test(test_sums_are_the_same_bits_whatever_comes_first),
      unit_test(test_a_sum_is_given_before_another_is_taken),
      unit_test(test_unequal_nodes_are_not_hierarchical))
