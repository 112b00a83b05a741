/* ranks: 2 4  more: 8  device: cpu
 *
 * Promise 1 under every algorithm of collectives: layouts that cover all techniques, on emulated nodes of two ranks,
 * equal the serial run. Each algorithm has one layout, which depends on the number of ranks; LONG=1: all layouts. */
#include "driver/recipe.h"
#include "lib/comm/comm_backend.h"
#include "lib/comm/hops/hops.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>

static bool is_serial(const struct comm_algorithm *algorithm, int company, const struct reference *reference) {
    const struct comm_settings before = *comm_settings_in_force();
    struct comm_settings settings = before;
    struct plan plan = layout_in_company(parity_plan(), company);
    for (int axis = 0; axis < COMM_MAX_AXES; axis++) settings.rule[axis].algorithm = algorithm;
    settings.nodes.ranks_per_node = 2;
    comm_configure(&settings);
    enum status settled = plan_settle(&plan, comm_world_size());
    bool ok = layout_is_serial(&plan, settled, reference);
    comm_configure(&before);
    if (!ok && comm_is_rank_0()) printf("    %s by %s is not\n", layout_name(&plan), algorithm->name);
    return ok;
}

TEST(test_layouts_equal_serial_under_every_algorithm) {
    struct reference reference;
    struct plan plan = parity_plan();
    enum status status = reference_init(&reference, &plan);
    bool ok = agree_all(status == OK);
    for (int a = 0; comm_algorithms[a] && ok; a++)
        for (int k = 0; k < N_COMPANIES && ok; k++)
            if (layouts_want_all() || k == (5 * a + comm_world_size()) % N_COMPANIES)
                ok = is_serial(comm_algorithms[a], k, &reference);
    reference_fini(&reference);
    assert_ok(status);
    assert_true(ok);
}

TESTS(unit_test(test_layouts_equal_serial_under_every_algorithm))
