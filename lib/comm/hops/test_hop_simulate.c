/* ranks: 1  device: cpu */
/* Simulated seconds, and the messages and bytes of tables, must equal their closed forms. */
#include "lib/comm/hops/hop_simulate.h"
#include "tests/test.h"

#include <math.h>

/* Typical links, on which an addition is faster than the transfer and is hidden behind it; and a slower addition. */
static const struct hop_links speeds[] = {{{1e-3, 1e-3}, {1e-8, 1e-8}, 3e-10, false},
                                          {{1e-3, 1e-3}, {1e-8, 1e-8}, 7e-8, false}};
enum { ELEMENT = 8 };

static const enum comm_op all_ops[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER,
                                       COMM_BROADCAST,  COMM_REDUCE,         COMM_ALL_TO_ALL};
enum { N_OPS = sizeof all_ops / sizeof *all_ops };

static struct hop_shape shape_of(enum comm_op op, int n, int64_t whole, const int *node) {
    bool parts = op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER || op == COMM_ALL_TO_ALL;
    return (struct hop_shape){op, n, 0, parts ? whole / n : whole, 0, 1, node};
}

/* The most messages and bytes that any rank sends. */
static struct hop_count most(const struct comm_algorithm *algorithm, const struct hop_shape *shape) {
    struct hop_count most = {0};
    for (int r = 0; r < shape->n; r++) {
        struct hop_table table;
        assert_ok(hops_make(algorithm, shape, r, &table));
        struct hop_count count = hops_count(&table, shape, r, FP64);
        hop_table_free(&table);
        int64_t messages = count.messages[0] + count.messages[1], bytes = count.bytes[0] + count.bytes[1];
        if (messages > most.messages[0]) most.messages[0] = messages;
        if (bytes > most.bytes[0]) most.bytes[0] = bytes;
    }
    return most;
}

static void check_form(const struct comm_algorithm *algorithm, const struct hop_shape *shape,
                       const struct hop_links *links) {
    double bytes = (double)(hop_shape_whole(shape) * ELEMENT), seconds;
    struct hop_form form = algorithm->form(shape, bytes, links);
    struct hop_count sent = most(algorithm, shape);
    assert_close((double)sent.messages[0], form.messages, 0);
    assert_close((double)sent.bytes[0], form.bytes, 1e-12 * form.bytes);
    assert_ok(hop_simulate(algorithm, shape, ELEMENT, links, NULL, NULL, &seconds));
    if (!isnan(form.seconds)) assert_close(seconds, form.seconds, 1e-12 * form.seconds);
}

/* All parts have the same number of elements, a power of two, for each number of ranks up to 17. */
TEST(test_tables_are_their_closed_forms) {
    for (int a = 0; comm_algorithms[a]; a++)
        for (int o = 0; o < N_OPS; o++)
            for (int n = 2; n <= 17; n++) {
                const struct hop_shape shape = shape_of(all_ops[o], n, 16 * 4096 * (int64_t)n, NULL);
                if (!comm_algorithm_fits(comm_algorithms[a], &shape)) continue;
                for (int i = 0; i < 2; i++) check_form(comm_algorithms[a], &shape, &speeds[i]);
            }
}

/* Two levels, slow links between nodes, a NIC for each rank. */
TEST(test_hierarchical_on_nodes) {
    const struct hop_links slow = {{1e-3, 5e-3}, {1e-8, 1e-7}, 3e-10, false};
    const struct comm_algorithm *algorithm = comm_algorithm_find("hierarchical");
    for (int nodes = 2; nodes <= 4; nodes++)
        for (int inside = 1; inside <= 4; inside++) {
            int node[16], n = nodes * inside;
            for (int r = 0; r < n; r++) node[r] = r / inside;
            const struct hop_shape shape = shape_of(COMM_ALL_REDUCE, n, 4096 * (int64_t)n * nodes, node);
            double bytes = (double)(hop_shape_whole(&shape) * ELEMENT), seconds;
            struct hop_form form = algorithm->form(&shape, bytes, &slow);
            assert_ok(hop_simulate(algorithm, &shape, ELEMENT, &slow, NULL, NULL, &seconds));
            assert_close(seconds, form.seconds, 1e-12 * form.seconds);
            assert_close((double)most(algorithm, &shape).bytes[0], form.bytes, 1e-12 * form.bytes);
        }
}

/* All ranks send to one rank, whose link receives the messages one after the other. */
TEST(test_incast_is_one_after_the_other) {
    double out[3] = {0}, in = 0, last = 0;
    for (int r = 0; r < 3; r++) last = link_land(&in, link_leave(&out[r], 0, 2.0), 2.0);
    assert_close(last, 3 * 2.0, 0);
    assert_close(out[2], 2.0, 0);
    double seconds;
    const struct hop_shape shape = shape_of(COMM_REDUCE, 5, 1000, NULL);
    const struct hop_links free_adding = {{1e-3, 1e-3}, {1e-8, 1e-8}, 0, false};
    assert_ok(hop_simulate(comm_algorithm_find("main"), &shape, ELEMENT, &free_adding, NULL, NULL, &seconds));
    assert_close(seconds, 1e-3 + 4 * 8000e-8, 1e-12);
}

/* In K segments: the first sum is sent back as soon as its segment's terms are there; then the link stays busy. */
TEST(test_main_gives_back_while_it_takes) {
    enum { N = 5, K = 4, SEGMENT = 1000 };
    const struct hop_links free_adding = {{1e-3, 1e-3}, {1e-8, 1e-8}, 0, false};
    struct hop_shape shape = shape_of(COMM_ALL_REDUCE, N, K * SEGMENT, NULL);
    double seconds;
    shape.segment = SEGMENT;
    assert_ok(hop_simulate(comm_algorithm_find("main"), &shape, ELEMENT, &free_adding, NULL, NULL, &seconds));
    assert_close(seconds, 2e-3 + (K + 1) * (N - 1) * SEGMENT * ELEMENT * 1e-8, 1e-12);
}

/* With two trees no rank sends more than twice the buffer; with one tree inner ranks send three times the buffer. With
 * many segments two trees take two thirds of the time. */
TEST(test_two_trees_share_the_work) {
    for (int n = 2; n <= 17; n++) {
        const struct hop_shape shape = shape_of(COMM_ALL_REDUCE, n, 6000, NULL);
        assert_in_range(most(comm_algorithm_find("double-tree"), &shape).bytes[0], 1, 2 * 6000 * ELEMENT);
    }
    struct hop_shape shape = shape_of(COMM_ALL_REDUCE, 15, 64000, NULL);
    const struct hop_links free_adding = {{1e-6, 1e-6}, {1e-8, 1e-8}, 0, false};
    double one, two;
    shape.segment = 500;
    assert_int_equal(most(comm_algorithm_find("tree"), &shape).bytes[0], 3 * 64000 * ELEMENT);
    assert_ok(hop_simulate(comm_algorithm_find("tree"), &shape, ELEMENT, &free_adding, NULL, NULL, &one));
    assert_ok(hop_simulate(comm_algorithm_find("double-tree"), &shape, ELEMENT, &free_adding, NULL, NULL, &two));
    assert_true(two < 0.7 * one);
}

/* Ranks 0 and 1 each send two messages to the other node. Both send to rank 2 first, whose link receives one after the
 * other, so the second two end one message later than they left. With one NIC a node all four take turns. */
TEST(test_a_shared_nic_takes_turns) {
    const int node[] = {0, 0, 1, 1};
    const struct hop_shape shape = shape_of(COMM_ALL_TO_ALL, 4, 4000, node);
    struct hop_links between = {{0, 0}, {0, 1e-6}, 0, false};
    double own, shared;
    assert_ok(hop_simulate(comm_algorithm_find("pairwise"), &shape, ELEMENT, &between, NULL, NULL, &own));
    between.nic_per_node = true;
    assert_ok(hop_simulate(comm_algorithm_find("pairwise"), &shape, ELEMENT, &between, NULL, NULL, &shared));
    assert_close(own, 3 * 8000e-6, 1e-12);
    assert_close(shared, 4 * 8000e-6, 1e-12);
}

/* Four ranks request their node's NIC at once, and again when they have received their first message. All first
 * messages are ready before any second one. So the time is that of eight messages on the NIC, and one latency after
 * the last. */
TEST(test_a_shared_nic_serves_whoever_came_first) {
    const int node[] = {0, 0, 0, 0, 1, 1, 1, 1};
    const struct hop_shape shape = shape_of(COMM_ALL_REDUCE, 8, 8000, node);
    const struct hop_links between = {{0, 1e-3}, {0, 1e-6}, 0, true};
    double seconds;
    assert_ok(hop_simulate(comm_algorithm_find("hierarchical"), &shape, ELEMENT, &between, NULL, NULL, &seconds));
    assert_close(seconds, 8 * 8000e-6 + 1e-3, 1e-12);
}

struct order { double before; int n_early; };
static void look_at_order(void *self, int rank, const struct hop_row *hop, double from, double to) {
    (void)rank, (void)to;
    struct order *order = self;
    if (hop->kind != HOP_SEND) return;
    order->n_early += from < order->before - 1e-12;      /* a start is computed as end - duration, and rounded */
    order->before = from;
}

/* Links serve messages in the order of their times, so the simulation must visit them in this order, on all ranks. */
TEST(test_messages_are_looked_at_in_the_order_of_their_times) {
    const int node[] = {0, 0, 0, 0, 1, 1, 1, 1};
    for (int a = 0; comm_algorithms[a]; a++)
        for (int o = 0; o < N_OPS; o++)
            for (int shared = 0; shared < 2; shared++) {
                const struct hop_links between = {{1e-3, 3e-3}, {1e-8, 1e-7}, 3e-10, shared};
                const struct hop_shape shape = shape_of(all_ops[o], 8, 8000, node);
                struct order order = {0};
                double seconds;
                if (!comm_algorithm_fits(comm_algorithms[a], &shape)) continue;
                assert_ok(hop_simulate(comm_algorithms[a], &shape, ELEMENT, &between, look_at_order, &order, &seconds));
                assert_int_equal(order.n_early, 0);
            }
}

TESTS(unit_test(test_tables_are_their_closed_forms), unit_test(test_hierarchical_on_nodes),
      unit_test(test_incast_is_one_after_the_other), unit_test(test_main_gives_back_while_it_takes),
      unit_test(test_two_trees_share_the_work), unit_test(test_a_shared_nic_takes_turns),
      unit_test(test_a_shared_nic_serves_whoever_came_first),
      unit_test(test_messages_are_looked_at_in_the_order_of_their_times))
