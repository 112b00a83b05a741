/* ranks: 1 */
/* Tables of hops, all algorithms and operations, on up to 17 ranks of this process.
 *
 * Symbolically: a buffer holds for each element the set of ranks whose terms are in it (a bit each; pieces are what a
 * gather moves). An ADD must be a disjoint union, so that no term is counted twice, and at the end every element at
 * every rank that is to have the result must be the set of all. */
#include "lib/comm/hop_walk.h"
#include "tests/test.h"

#include "lib/base/integer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 17, MAX_MESSAGES = 4096 };

static const enum comm_op all_ops[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER,
                                       COMM_BROADCAST,  COMM_REDUCE,         COMM_ALL_TO_ALL};
enum { N_OPS = sizeof all_ops / sizeof *all_ops };

/* ---- a carrier between the ranks of this process ---- */

struct message { const int64_t *from; int64_t bytes; bool taken; };
struct pair { struct message message[MAX_MESSAGES]; int n_sent, n_received; };
struct world {
    int n;
    bool adds;                               /* doubles are added; otherwise sets are united */
    struct pair *pair;                       /* [from * n + to] */
    bool counted_twice, wrong_size;
    struct at { struct world *world; int rank; } at[MAX_RANKS];
};

/* handle[0]: its message; handle[1]: where a receiver wants it. */
static enum status world_send(void *self, int peer, const void *from, int64_t bytes, struct hop_ticket *ticket) {
    struct at *at = self;
    struct pair *pair = &at->world->pair[at->rank * at->world->n + peer];
    if (pair->n_sent == MAX_MESSAGES) return FAIL(E_INTERNAL, "the test has room for %d messages", MAX_MESSAGES);
    pair->message[pair->n_sent] = (struct message){from, bytes, false};
    *ticket = (struct hop_ticket){.handle = {&pair->message[pair->n_sent++], NULL}, .stamp = (double)bytes};
    return OK;
}
static enum status world_receive(void *self, int peer, void *to, int64_t bytes, struct hop_ticket *ticket) {
    struct at *at = self;
    struct pair *pair = &at->world->pair[peer * at->world->n + at->rank];
    *ticket = (struct hop_ticket){.handle = {&pair->message[pair->n_received++], to}, .stamp = (double)bytes};
    return OK;
}
static enum status world_done(void *self, struct hop_ticket *ticket, bool *done) {
    struct at *at = self;
    struct message *message = ticket->handle[0];
    *done = message->taken;
    if (message->taken || !ticket->handle[1] || !message->from) return OK;
    at->world->wrong_size |= message->bytes != (int64_t)ticket->stamp;
    memcpy(ticket->handle[1], message->from, (size_t)message->bytes);
    *done = message->taken = true;
    return OK;
}
static enum status world_union(void *self, void *terms, void *into, int64_t n) {
    struct at *at = self;
    for (int64_t i = 0; i < n && at->world->adds; i++) ((double *)into)[i] += ((double *)terms)[i];
    for (int64_t i = 0; i < n && !at->world->adds; i++) {
        at->world->counted_twice |= (((int64_t *)into)[i] & ((int64_t *)terms)[i]) != 0;
        ((int64_t *)into)[i] |= ((int64_t *)terms)[i];
    }
    return OK;
}
static const struct hop_carrier in_process = {world_send, world_receive, world_done, world_union};

/* ---- what goes in, and what must come out ---- */

static bool in_parts(enum comm_op op) {
    return op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER || op == COMM_ALL_TO_ALL;
}
static bool is_sum(enum comm_op op) { return op == COMM_ALL_REDUCE || op == COMM_REDUCE_SCATTER || op == COMM_REDUCE; }

/* Source of rank r: the bit r for what is summed; else a number that says where it comes from. */
static int64_t given(const struct hop_shape *shape, int r, int64_t i) {
    return is_sum(shape->op) ? (int64_t)1 << r : 1000 * (r + 1) + i;
}
static int64_t wanted(const struct hop_shape *shape, int r, int64_t i) {
    int64_t all = ((int64_t)1 << shape->n) - 1;
    switch (shape->op) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER: return all;
    case COMM_REDUCE: return r == shape->root ? all : given(shape, r, i);
    case COMM_BROADCAST: return given(shape, shape->root, i);
    case COMM_ALL_GATHER: return given(shape, (int)(i / shape->count), i % shape->count);
    default: return given(shape, (int)(i / shape->count), r * shape->count + i % shape->count);
    }
}
static int64_t n_from(const struct hop_shape *shape) {
    return shape->op == COMM_ALL_GATHER ? shape->count : hop_shape_whole(shape);
}
static int64_t n_to(const struct hop_shape *shape) {
    return shape->op == COMM_REDUCE_SCATTER ? shape->count : hop_shape_whole(shape);
}

struct rank { int64_t *from, *to; void *memory; struct hop_walk *walk; bool done; };

static void open_rank(const struct comm_algorithm *algorithm, const struct hop_shape *shape, struct world *world,
                      int r, struct rank *rank) {
    struct hop_table table;
    assert_ok(hops_make(algorithm, shape, r, &table));
    *rank = (struct rank){calloc((size_t)n_from(shape) + 1, 8), calloc((size_t)n_to(shape) + 1, 8),
                          aligned_alloc(64, (size_t)hop_walk_bytes(&table, 8) + 64), NULL, false};
    for (int64_t i = 0; i < n_from(shape); i++) rank->from[i] = given(shape, r, i);
    bool in_place = !in_parts(shape->op);
    if (in_place) memcpy(rank->to, rank->from, (size_t)(8 * n_to(shape)));
    rank->to[n_to(shape)] = -1;
    const struct hop_buffers buffers = {in_place ? rank->to : rank->from, rank->to};
    assert_ok(hop_walk_open(&table, shape->n, 8, &buffers, rank->memory, &in_process, &world->at[r], &rank->walk));
}

static bool rank_is_right(const struct hop_shape *shape, int r, const struct rank *rank) {
    bool right = rank->to[n_to(shape)] == -1;
    for (int64_t i = 0; i < n_to(shape); i++) right &= rank->to[i] == wanted(shape, r, i);
    for (int64_t i = 0; i < n_from(shape); i++) right &= rank->from[i] == given(shape, r, i);
    return right;
}

/* Ranks are pushed in an order drawn again each time. @return what is wrong, or NULL */
static const char *run(const struct comm_algorithm *algorithm, const struct hop_shape *shape, unsigned seed) {
    struct world world = {.n = shape->n, .pair = calloc((size_t)(shape->n * shape->n), sizeof *world.pair)};
    struct rank rank[MAX_RANKS];
    int n_done = 0, idle = 0;
    const char *wrong = NULL;
    srand(seed);
    for (int r = 0; r < shape->n; r++) {
        world.at[r].world = &world, world.at[r].rank = r;
        open_rank(algorithm, shape, &world, r, &rank[r]);
    }
    while (n_done < shape->n && idle < 5000 * shape->n) {
        struct rank *x = &rank[rand() % shape->n];
        if (x->done) continue;
        assert_ok(hop_walk_push(x->walk, &x->done));
        n_done += x->done;
        idle = x->done ? 0 : idle + 1;
    }
    if (n_done < shape->n) wrong = "stands still";
    if (world.counted_twice) wrong = "a term is added twice";
    if (world.wrong_size) wrong = "two ranks name different pieces";
    for (int p = 0; p < shape->n * shape->n; p++)
        if (world.pair[p].n_sent != world.pair[p].n_received) wrong = "a message is left";
    for (int r = 0; r < shape->n; r++) {
        if (!wrong && !rank_is_right(shape, r, &rank[r])) wrong = "wrong result";
        hop_walk_close(&rank[r].walk);
        free(rank[r].from), free(rank[r].to), free(rank[r].memory);
    }
    free(world.pair);
    return wrong;
}

static void check(const struct comm_algorithm *algorithm, const struct hop_shape *shape) {
    if (!comm_algorithm_fits(algorithm, shape)) return;
    const char *wrong = run(algorithm, shape, 7u + (unsigned)shape->n);
    if (wrong)
        fail_msg("%s of %lld elements by %s on %d ranks, root %d, segments of %lld, %s: %s", comm_op_name(shape->op),
                 (long long)shape->count, algorithm->name, shape->n, shape->root, (long long)shape->segment,
                 shape->node ? "nodes" : "one node", wrong);
}

/* No elements, fewer than ranks, as many, parts that do not divide, many; whole and in segments. */
static void test_every_algorithm_does_every_operation(void **state) {
    (void)state;
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

/* L ranks a node, in blocks and round the nodes. */
static void test_algorithms_on_nodes(void **state) {
    (void)state;
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

/* All ranks' sums of numbers whose sum depends on the order, one rank after the other. */
static void sums_in_some_order(const struct comm_algorithm *algorithm, const struct hop_shape *shape, unsigned seed,
                               double *sums) {
    struct world world = {
        .n = shape->n, .adds = true, .pair = calloc((size_t)(shape->n * shape->n), sizeof *world.pair)};
    struct rank rank[MAX_RANKS];
    srand(seed);
    for (int r = 0; r < shape->n; r++) {
        world.at[r].world = &world, world.at[r].rank = r;
        open_rank(algorithm, shape, &world, r, &rank[r]);
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
        hop_walk_close(&rank[r].walk);
        free(rank[r].from), free(rank[r].to), free(rank[r].memory);
    }
    free(world.pair);
}

static void test_sums_are_the_same_bits_whatever_comes_first(void **state) {
    (void)state;
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

static void test_unequal_nodes_are_not_hierarchical(void **state) {
    (void)state;
    const int node[] = {0, 0, 0, 1, 1};
    assert_false(comm_algorithm_fits(comm_algorithm_find("hierarchical"),
                                     &(struct hop_shape){COMM_ALL_REDUCE, 5, 0, 100, 0, 1, node}));
    assert_null(comm_algorithm_find("rings"));
}

TESTS(unit_test(test_every_algorithm_does_every_operation), unit_test(test_algorithms_on_nodes),
      unit_test(test_sums_are_the_same_bits_whatever_comes_first),
      unit_test(test_unequal_nodes_are_not_hierarchical))
