/* ranks: 1  device: any */
#include "lib/ops/relu.h"
#include "lib/ops/test_op.h"

static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_relu, 1);
    op_case_input(c, op_type(dtype, "BTK", 2, 7, 5));
    op_case_finish(c);
}

TEST(test_relu_gradient_is_the_slope) {
    op_case_check_gradients(make);
}

TEST(test_relu_in_every_precision) {
    op_case_check_precisions(make, 1, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
}

TESTS(unit_test(test_relu_gradient_is_the_slope), unit_test(test_relu_in_every_precision))
