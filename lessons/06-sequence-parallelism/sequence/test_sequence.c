/* ranks: 1 2 4  device: cpu
 *
 * The pair of ops in a run: three steps of a small model whose sequences are cut between regions, compared with the
 * serial run. Microbatches have one sequence, whose pieces are contiguous, or four, whose pieces are not. */
#include "driver/recipe.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"

static enum status compare(const struct reference *ref, int micro_batch, struct difference *d) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.mesh.tp = comm_world_size();
    tp_options(&plan)->sp = plan.mesh.tp > 1;
    plan.micro_batch = micro_batch;
    enum status status = plan_settle(&plan, comm_world_size());
    return agree_all(status == OK) ? layout_compare(&plan, ref, d) : status;
}

TEST(test_sequence_training_equals_serial) {
    struct reference ref = {0};
    struct difference d[2] = {{0}};
    struct plan plan = parity_plan();
    plan.layers = 2;
    enum status status = reference_init(&ref, &plan);
    if (agree_all(status == OK)) status = compare(&ref, 1, &d[0]);
    if (agree_all(status == OK)) status = compare(&ref, 4, &d[1]);
    reference_fini(&ref);
    assert_ok(status);
    for (int i = 0; i < 2; i++) {
        assert_close(d[i].loss, 0, 1e-10);   /* fp64: promise 1 of docs/architecture.md */
        assert_close(d[i].norm, 0, 1e-10);
        assert_close(d[i].grad, 0, 1e-10);
        assert_close(d[i].memory, 0, 0);
        assert_close(d[i].wire, 0, 1e-12);
    }
}

TESTS(unit_test(test_sequence_training_equals_serial))
