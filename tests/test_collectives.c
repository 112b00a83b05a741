/* ranks: 2 4 8  device: cpu
 *
 * A run under --check-collectives, where the members of a group compare each call before they make it: all ranks
 * make the same calls in the same order, and the numbers stay the serial run's. A rank with another order or size of
 * calls would hang the others or give them wrong bytes; here it prints a sentence. */
#include "tests/layouts.h"
#include "tests/test.h"

/* As many dimensions as the ranks allow, and several microbatches. */
static struct plan layout_of_world(void) {
    struct plan plan = parity_plan();
    plan.mesh.dp = 2;
    plan.mesh.tp = comm_world_size() >= 4 ? 2 : 1;
    plan.mesh.pp = comm_world_size() >= 8 ? 2 : 1;
    plan.micro_batch = 2;
    return plan;
}

static enum status compare_checked(const struct plan *plan, const struct reference *ref, struct difference *d) {
    comm_configure(&(struct comm_settings){.timeout_s = 60, .check_collectives = true});
    enum status status = layout_compare(plan, ref, d);
    comm_configure(&(struct comm_settings){.timeout_s = 60, .check_collectives = false});
    return status;
}

TEST(test_collectives_match_on_every_rank) {
    struct reference ref;
    struct plan serial = parity_plan(), plan = layout_of_world();
    struct difference d = {0};
    enum status status = reference_init(&ref, &serial);
    if (status == OK) status = plan_settle(&plan, comm_world_size());
    if (agree_all(status == OK)) status = compare_checked(&plan, &ref, &d);
    reference_fini(&ref);
    assert_ok(status);
    assert_true(d.loss < 1e-10 && d.grad < 1e-10 && d.weight < 1e-10);
}

TESTS(unit_test(test_collectives_match_on_every_rank))
