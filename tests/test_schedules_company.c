/* ranks: 4  more: 8  device: cpu
 *
 * Every pipeline schedule in company with every other technique: zero 1 to 3, offload, every recomputation, sp, tp and
 * dp, with head and loss as one operation and as two. A third of the pairs is run, which covers every schedule and
 * every technique; LONG=1: all. PARITY=text runs only the layouts whose name contains it. */
#include "driver/recipe.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(test_every_schedule_in_company) {
    struct plan serial = parity_plan();
    struct reference reference;
    const char *filter = getenv("PARITY");
    int seen = 0, failed = 0;
    enum status status = reference_init(&reference, &serial);
    for (int c = 0; agree_all(status == OK) && c < N_COMPANIES; c++)
        for (int k = SCHEDULE_INTERLEAVED + 1; k < N_SYNCHRONOUS; k++) {
            if ((c + k) % 3 && !layouts_want_all()) continue;
            struct plan p = layout_scheduled_in_company(serial, c, k);
            enum status tried = plan_settle(&p, comm_world_size());
            if (filter && !strstr(layout_name(&p), filter)) continue;
            failed += !layout_is_serial(&p, tried, &reference);
            seen++;
        }
    reference_fini(&reference);
    assert_ok(status);
    int all = N_COMPANIES * (N_SYNCHRONOUS - 3);
    assert_true(filter || (layouts_want_all() ? seen == all : seen == all / 3 || seen == (all + 2) / 3));
    assert_int_equal(failed, 0);
}

/* The validation loss depends on the model, not on the layout. It is computed between training steps, through every
 * schedule's forward half. */
TEST(test_every_schedule_evaluates_alike) {
    double first = 0;
    for (int k = 0; k < N_SYNCHRONOUS; k++) {
        struct plan p = parity_plan();
        struct run r;
        double loss = 0;
        p.mesh.pp = 4, p.mesh.dp = comm_world_size() / 4, p.micro_batch = 2;
        pp_options(&p)->schedule = k;
        pp_options(&p)->chunks = pp_schedule_at(k)->chunked ? 2 : 1;
        enum status status = plan_settle(&p, comm_world_size());
        if (status == OK) status = run_create(&r, &train_recipe, &p, WATCH_LIFETIMES);
        if (status == OK) status = layout_use_demo(&r);
        if (status == OK) status = run_step(&r);
        if (status == OK) status = run_evaluate(&r, 3, &loss);
        if (status == OK) status = run_step(&r);
        run_destroy(&r);
        assert_ok(status);
        if (k == 0) first = loss;
        assert_close(loss, first, 1e-12 * first);
    }
}

TESTS(unit_test(test_every_schedule_in_company), unit_test(test_every_schedule_evaluates_alike))
