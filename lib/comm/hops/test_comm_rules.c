/* ranks: 1  device: cpu */
/* --comm-algorithm: the rules that it sets, and the texts that it refuses. */
#include "lib/comm/hops/comm_rules.h"
#include "lib/comm/hops/hop_simulate.h"
#include "tests/test.h"

static struct comm_rule rule[COMM_MAX_AXES];

TEST(test_one_for_all_or_by_axis) {
    assert_ok(comm_rules_parse("ring", rule));
    for (int a = 0; a < COMM_MAX_AXES; a++) assert_string_equal(comm_rule_name(&rule[a]), "ring");
    assert_ok(comm_rules_parse("dp=hierarchical,tp=library", rule));
    for (int a = 0; a < COMM_MAX_AXES; a++)
        assert_string_equal(comm_rule_name(&rule[a]), a == AXIS_DP   ? "hierarchical"
                                                      : a == AXIS_TP ? "library"
                                                                     : "auto");
    assert_fails(comm_rules_parse("rings", rule), E_CONFIG, "\"rings\"", "halving-near");
    assert_fails(comm_rules_parse("dp=ring,tp", rule), E_CONFIG, "\"tp\"", "dp=tp");
    assert_fails(comm_rules_parse("dq=ring", rule), E_CONFIG, "\"dq\"", "dp", "tie");
    assert_fails(comm_rules_parse("dp=", rule), E_CONFIG, "\"\"");
}

/* The rule chooses the algorithm. Without a rule, or if the rule's algorithm does not have the operation, large
 * operations go pairwise. On emulated links no operation uses the library. */
TEST(test_who_carries_an_operation) {
    const struct comm_algorithm *chosen;
    struct hop_shape shape = {COMM_ALL_REDUCE, 6, 0, 1 << 20, 0, 1, NULL};
    const struct comm_rule none = {0}, library = {.library = true}, halving = {false, comm_algorithm_find("halving")};
    assert_ok(comm_rule_choose(&none, &shape, FP32, false, NULL, "dp", &chosen));
    assert_string_equal(chosen->name, "pairwise");
    assert_ok(comm_rule_choose(&library, &shape, FP32, false, NULL, "dp", &chosen));
    assert_null(chosen);
    assert_ok(comm_rule_choose(&halving, &shape, FP32, false, NULL, "dp", &chosen));
    assert_string_equal(chosen->name, "halving");
    shape.op = COMM_REDUCE_SCATTER;
    assert_fails(comm_rule_choose(&halving, &shape, FP32, false, NULL, "dp", &chosen), E_CONFIG, "6 ranks",
                 "power of two", "ring");
    shape.op = COMM_BROADCAST;
    assert_ok(comm_rule_choose(&halving, &shape, FP32, false, NULL, "dp", &chosen));
    assert_null(chosen);
    assert_ok(comm_rule_choose(&library, &shape, FP32, true, NULL, "dp", &chosen));
    assert_string_equal(chosen->name, "tree");
    shape.op = COMM_SEND;
    assert_ok(comm_rule_choose(&none, &shape, FP32, true, NULL, "pp", &chosen));
    assert_string_equal(chosen->name, "message");
}

/* auto chooses the fastest algorithm on known links. Small sums take the fewest messages. Large sums of 6 ranks on
 * nodes of 3 send the fewest bytes between nodes. On equal links pairwise is the fastest. */
TEST(test_auto_is_the_fastest_on_known_links) {
    const int node[] = {0, 0, 0, 1, 1, 1};
    const struct hop_links slow = {{1e-5, 1e-3}, {1e-10, 1e-7}, 0, false};
    const struct hop_links equal = {{1e-5, 1e-5}, {1e-9, 1e-9}, 0, false};
    const struct comm_rule none = {0}, ring = {false, comm_algorithm_find("ring")};
    struct hop_shape shape = {COMM_ALL_REDUCE, 6, 0, 1 << 20, 1 << 16, 16, node};
    const struct comm_algorithm *chosen;
    for (int twice = 0; twice < 2; twice++) {
        shape.count = 1 << 20;
        assert_ok(comm_rule_choose(&none, &shape, FP32, true, &slow, "dp", &chosen));
        assert_string_equal(chosen->name, "hierarchical");
        assert_ok(comm_rule_choose(&none, &shape, FP32, true, &equal, "dp", &chosen));
        assert_string_equal(chosen->name, "pairwise");
        shape.count = 1;
        assert_ok(comm_rule_choose(&none, &shape, FP32, true, &slow, "dp", &chosen));
        for (int i = 0; comm_algorithms[i]; i++) {
            double seconds, least;
            if (!comm_algorithm_fits(comm_algorithms[i], &shape)) continue;
            assert_ok(hop_simulate(comm_algorithms[i], &shape, 4, &slow, NULL, NULL, &seconds));
            assert_ok(hop_simulate(chosen, &shape, 4, &slow, NULL, NULL, &least));
            assert_true(least <= seconds);
        }
    }
    assert_ok(comm_rule_choose(&ring, &shape, FP32, true, &slow, "dp", &chosen));
    assert_string_equal(chosen->name, "ring");
    shape.op = COMM_SEND;
    assert_ok(comm_rule_choose(&none, &shape, FP32, true, &slow, "pp", &chosen));
    assert_string_equal(chosen->name, "message");
}

TESTS(unit_test(test_one_for_all_or_by_axis), unit_test(test_who_carries_an_operation),
      unit_test(test_auto_is_the_fastest_on_known_links))
