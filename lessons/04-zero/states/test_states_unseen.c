/* ranks: 1  device: cpu
 *
 * Optimizers that the other tests do not have (SGD without and with momentum, states in 8 bits), tensors of more than
 * 2^32 elements, and a model that fits exactly. */
#include "lessons/04-zero/states/states.h"

#include "tests/test.h"
#include "zero/zero.h"

static const struct states others[] = {{4, 4, 0}, {4, 4, 4}, {2, 4, 6}, {2, 2, 2}, {1, 2, 16}};
enum { N_OTHERS = sizeof others / sizeof *others };

TEST(test_states_of_other_optimizers) {
    for (int i = 0; i < N_OTHERS; i++)
        for (int stage = 0; stage <= 3; stage++)
            for (int n = 1; n <= 24; n++) {
                struct states x = others[i];
                double bytes = NAN, params = NAN, right = zero_bytes_per_param(stage, n, x.weight, x.grad, x.optim);
                assert_ok(states_per_param(stage, n, x, &bytes));
                assert_close(bytes, right, 1e-12);
                assert_ok(states_largest_model(stage, n, x, 40e9, &params));
                assert_close(params * right, 40e9, 1);
            }
}

/* Exactly the room that 16 ranks need, and one byte per rank less, in whole numbers. */
TEST(test_states_fewest_ranks_at_the_edge) {
    for (int i = 0; i < N_OTHERS; i++)
        for (int stage = 1; stage <= 3; stage++) {
            struct states x = others[i];
            double params = 1 << 20, room = params * zero_bytes_per_param(stage, 16, x.weight, x.grad, x.optim);
            int n = -1, more = -1;
            assert_ok(states_fewest_ranks(stage, params, x, room, &n));
            assert_ok(states_fewest_ranks(stage, params, x, room - 1, &more));
            bool same = x.optim == 0 && stage == 1;          /* no state is cut */
            assert_int_equal(n, same ? 1 : 16);
            if (same) assert_int_equal(more, 0);
            else assert_true(more > 16);
        }
}

/* A tensor of 5000000007 elements and a tensor of one element, on 3 ranks. */
TEST(test_states_of_very_large_and_small_tensors) {
    static const int64_t large[] = {5000000007, 1};
    static const int64_t shards = 1666666669 + 1;            /* of both tensors, on 3 ranks: rounded up each */
    for (int stage = 0; stage <= 3; stage++) {
        int64_t whole = (stage < 3 ? 2 : 0) + (stage < 2 ? 4 : 0) + (stage < 1 ? 12 : 0), bytes = -1;
        assert_ok(states_of_rank(stage, 3, (struct states){2, 4, 12}, large, 2, &bytes));
        assert_int_equal(bytes, shards * (3 * whole + (18 - whole)));
    }
    int64_t one = 1, bytes = -1;
    assert_ok(states_of_rank(1, 8, (struct states){4, 4, 8}, &one, 1, &bytes));
    assert_int_equal(bytes, 8 * 8 + 8);
}

TESTS(unit_test(test_states_of_other_optimizers), unit_test(test_states_fewest_ranks_at_the_edge),
      unit_test(test_states_of_very_large_and_small_tensors))
