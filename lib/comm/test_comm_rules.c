/* ranks: 1 */
/* --comm-algorithm: what it says, and what it refuses. */
#include "lib/comm/comm_rules.h"
#include "tests/test.h"

static struct comm_rule rule[COMM_MAX_AXES];

static void test_one_for_all_or_by_axis(void **state) {
    (void)state;
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

/* By the rule; without one what is large goes pairwise; what the rule's algorithm does not have, as without one; and
 * nothing is the library's on emulated links. */
static void test_who_carries_an_operation(void **state) {
    (void)state;
    const struct comm_algorithm *chosen;
    struct hop_shape shape = {COMM_ALL_REDUCE, 6, 0, 1 << 20, 0, 1, NULL};
    const struct comm_rule none = {0}, library = {.library = true}, halving = {false, comm_algorithm_find("halving")};
    assert_ok(comm_rule_choose(&none, &shape, FP32, false, "dp", &chosen));
    assert_string_equal(chosen->name, "pairwise");
    assert_ok(comm_rule_choose(&library, &shape, FP32, false, "dp", &chosen));
    assert_null(chosen);
    assert_ok(comm_rule_choose(&halving, &shape, FP32, false, "dp", &chosen));
    assert_string_equal(chosen->name, "halving");
    shape.op = COMM_REDUCE_SCATTER;
    assert_fails(comm_rule_choose(&halving, &shape, FP32, false, "dp", &chosen), E_CONFIG, "6 ranks", "power of two",
                 "ring");
    shape.op = COMM_BROADCAST;
    assert_ok(comm_rule_choose(&halving, &shape, FP32, false, "dp", &chosen));
    assert_null(chosen);
    assert_ok(comm_rule_choose(&library, &shape, FP32, true, "dp", &chosen));
    assert_string_equal(chosen->name, "tree");
    shape.op = COMM_SEND;
    assert_ok(comm_rule_choose(&none, &shape, FP32, true, "pp", &chosen));
    assert_string_equal(chosen->name, "message");
}

TESTS(unit_test(test_one_for_all_or_by_axis), unit_test(test_who_carries_an_operation))
