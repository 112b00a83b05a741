/* ranks: 1 */
/* The messages and bytes of exchanges, counted by hand: pieces, times, nodes, the library. (The parity tests compare
 * the counts with real runs: tests/layouts.c.) */
#include "lib/comm/comm.h"
#include "lib/comm/hops/comm_rules.h"
#include "lib/run/sent.h"
#include "tests/test.h"

static struct sent sent_of(const char *algorithm, const struct exchange *x) {
    struct sent_rules rules = {.nodes = {2, false}};
    const struct mesh_sizes four_replicas = {.dp = 4, .tp = 1, .cp = 1, .pp = 1};
    struct sent sent;
    assert_ok(comm_rules_parse(algorithm, rules.rule));
    assert_ok(sent_by_exchange(&rules, &four_replicas, 1, x, &sent));
    return sent;
}

/* Rank 1 is the last rank of its node, so all its messages to rank 2 leave the node: 2 (n-1) messages of a quarter. */
TEST(test_pieces_and_times_are_counted) {
    struct exchange x = {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 3 * 1600, .dtype = FP32, .pieces = 3,
                         .times = 2};
    struct sent sent = sent_of("ring", &x);
    assert_string_equal(sent.algorithm, "ring");
    assert_int_equal(sent.operations, 6);
    assert_int_equal(sent.count.messages[0], 0);
    assert_int_equal(sent.count.messages[1], 6 * 6);
    assert_int_equal(sent.count.bytes[1], 6 * 6 * 400 * 4);
    x.count++;                                              /* one piece of 1601: 416 + 416 + 416 + 353 */
    sent = sent_of("ring", &x);
    assert_int_equal(sent.operations, 6);
    assert_int_equal(sent.count.messages[1], 6 * 6);
    assert_int_equal(sent.count.bytes[1], 4 * 6 * 400 * 4 + 2 * 2 * (416 + 353 + 416) * 4);
}

/* The count of a gather is of the whole. Rank 1 sends to rank 0 inside its node, and to ranks 2 and 3 outside. */
TEST(test_parts_go_inside_and_between) {
    struct sent sent = sent_of("pairwise", &(struct exchange){.axis = AXIS_DP, .op = COMM_ALL_GATHER, .count = 400,
                                                              .dtype = FP64});
    assert_int_equal(sent.count.messages[0], 1);
    assert_int_equal(sent.count.messages[1], 2);
    assert_int_equal(sent.count.bytes[0], 800);
    assert_int_equal(sent.count.bytes[1], 1600);
}

/* The library carries small operations, and its messages are unknown. A group of one rank sends nothing. */
/* A build without MPI has no library. */
TEST(test_the_library_does_not_say) {
    if (!comm_has_mpi()) skip();
    struct exchange x = {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 100, .dtype = FP32};
    struct sent sent = sent_of("auto", &x);
    assert_string_equal(sent.algorithm, "library");
    assert_close(sent.library_bytes, 2 * 400 * 3. / 4, 0);
    assert_int_equal(sent.count.messages[0] + sent.count.messages[1], 0);
    x.axis = AXIS_TP;
    sent = sent_of("ring", &x);
    assert_int_equal(sent.count.messages[0] + sent.count.messages[1], 0);
}

static int64_t memory_of(const char *algorithm, struct exchange *x, int n) {
    struct sent_rules rules = {.nodes = {2, false}};
    const struct mesh_sizes four_replicas = {.dp = 4, .tp = 1, .cp = 1, .pp = 1};
    const struct bill bill = {.exchanges = x, .n_exchanges = n};
    int64_t bytes[N_MESH_AXES];
    assert_ok(comm_rules_parse(algorithm, rules.rule));
    assert_ok(sent_memory(&rules, &four_replicas, 1, &bill, bytes));
    assert_int_equal(bytes[AXIS_TP], 0);
    return bytes[AXIS_DP];
}

/* An all-reduce of 1600 elements takes two buffers of 1600 bytes. A large one takes two segments, for up to eight at a
 * time. A ring's reduce-scatter takes a copy of 8 MiB and two segments. */
TEST(test_memory_is_that_of_a_full_line) {
    struct exchange x[] = {
        {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 1600, .dtype = FP32, .times = 3},
        {.axis = AXIS_DP, .op = COMM_ALL_GATHER, .count = 1600, .dtype = FP32},
        {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 1 << 20, .dtype = FP32, .times = 100},
        {.axis = AXIS_DP, .op = COMM_REDUCE_SCATTER, .count = 2 << 20, .dtype = FP32, .times = 2},
    };
    assert_int_equal(memory_of("pairwise", x, 2), 3 * 2 * 1600);
    assert_int_equal(memory_of("pairwise", x, 3), 4 << 20);
    assert_int_equal(memory_of("ring", x, 4), (8 << 20) + 2 * (256 << 10));
}

TESTS(unit_test(test_memory_is_that_of_a_full_line), unit_test(test_pieces_and_times_are_counted),
      unit_test(test_parts_go_inside_and_between),
      unit_test(test_the_library_does_not_say))
