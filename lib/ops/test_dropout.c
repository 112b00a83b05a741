/* ranks: 1  device: any
 * The ops dropout and branch. */
#include "lib/ops/branch.h"
#include "lib/ops/dropout.h"
#include "lib/ops/test_op.h"

static void make_with(struct op_case *c, enum dtype dtype, bool store) {
    op_case_start(c, &op_dropout, op_n_out(&op_dropout, store));
    c->step.dropout.p = 0.25;
    c->settings.training = true;
    op_case_input(c, op_type(dtype, "BTC", 2, 7, 70));
    op_case_finish(c);
}
static void make(struct op_case *c, enum dtype dtype) { make_with(c, dtype, false); }
static void make_store(struct op_case *c, enum dtype dtype) { make_with(c, dtype, true); }

TEST(test_dropout_is_its_factor_both_ways) {
    op_case_check_gradients(make);
    op_case_check_precisions(make, 3, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
    op_case_check_stored_masks(make_store, make);
}

/* Each element of y is x 4/3 or 0. Of 980 elements 735 are kept, within five standard deviations. */
TEST(test_dropout_keeps_its_share) {
    struct op_case c;
    make(&c, FP64);
    op_case_run(&c, ROW_FORWARD);
    const double *x = c.in[0].data, *y = c.out[0].data;
    int kept = 0;
    for (int i = 0; i < 980; i++) {
        assert_true(y[i] == 0 || y[i] == x[i] * (1 / 0.75));
        kept += y[i] != 0;
    }
    assert_close(kept, 735, 5 * sqrt(980 * 0.25 * 0.75));
    op_case_free(&c);
}

static void make_branch(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_branch, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 3, 5));
    op_case_finish(c);
}

TEST(test_a_branch_adds_to_what_others_made) {
    op_case_check_gradients(make_branch);
    op_case_check_precisions(make_branch, 1, 0);
}

TESTS(unit_test(test_dropout_is_its_factor_both_ways), unit_test(test_dropout_keeps_its_share),
      unit_test(test_a_branch_adds_to_what_others_made))
