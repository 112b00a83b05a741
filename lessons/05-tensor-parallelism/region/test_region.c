/* ranks: 1 2 4  device: cpu
 *
 * The pair of ops in a run: three steps of a small model that is cut over all ranks, compared with the serial run. */
#include "driver/recipe.h"
#include "tests/layouts.h"
#include "tests/test.h"

TEST(test_region_training_equals_serial) {
    struct reference ref = {0};
    struct difference d = {0};
    struct plan plan = parity_plan();
    plan.layers = 2;
    enum status status = reference_init(&ref, &plan);
    if (agree_all(status == OK)) {
        plan.mesh.tp = comm_world_size();
        status = plan_settle(&plan, comm_world_size());
        if (agree_all(status == OK)) status = layout_compare(&plan, &ref, &d);
    }
    reference_fini(&ref);
    assert_ok(status);
    assert_close(d.first_loss, 0, 1e-10);   /* fp64: promise 1 of docs/architecture.md */
    assert_close(d.norm, 0, 1e-10);
    assert_close(d.loss, 0, 1e-10);
    assert_close(d.grad, 0, 1e-10);
    assert_close(d.wire, 0, 1e-12);
}

TESTS(unit_test(test_region_training_equals_serial))
