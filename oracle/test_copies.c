/* ranks: 2 4  more: 8  device: cpu  threads: 1
 *
 * Copies of weights: alike in layouts of all techniques, whose numbers and bytes stay what they are; and one bit of one
 * copy is found, with the param and the ranks. */
#include "driver/recipe.h"
#include "oracle/copies.h"
#include "lib/comm/comm.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <stdio.h>
#include <string.h>

static struct plan watched(struct plan p, int64_t every) {
    copies_options(&p)->every = every;
    return p;
}

TEST(test_layouts_of_all_techniques_have_equal_copies) {
    struct reference reference;
    struct plan plan = parity_plan();
    enum status status = reference_init(&reference, &plan);
    bool ok = agree_all(status == OK);
    for (int k = 0; k < N_COMPANIES && ok; k++) {
        struct plan p = watched(layout_in_company(parity_plan(), k), k % 2 ? 3 : 1);
        enum status settled = plan_settle(&p, comm_world_size());
        ok = layout_is_serial(&p, settled, &reference);
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_true(ok);
}

/* Spoil one bit of a weight on one rank after the first step, and train another one. */
static enum status train_spoiled(struct plan p, const char *name, int rank, char message[256]) {
    struct run r;
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    if (status == OK) status = run_step(&r);
    for (int i = 0; i < r.program.n_params && status == OK && comm_world_rank() == rank; i++)
        if (!strcmp(r.program.params[i].name, name)) *(char *)param_own_weight(&r.program.params[i]) ^= 1;
    if (status == OK) status = run_step(&r);
    snprintf(message, 256, "%s", status == OK ? "" : status_message());
    status_clear();
    run_destroy(&r);
    return status;
}

static struct plan of_dp(int zero) {
    struct plan p = watched(parity_plan(), 1);
    p.mesh.dp = comm_world_size();
    p.micro_batch = 0;
    zero_options(&p)->stage = zero;
    return p;
}

TEST(test_one_bit_of_one_copy_is_named) {
    char message[256], wanted[128] = "step 2: copies of h0.ln1.g and of 0 more params differ: rank 1 against rank 0";
    assert_int_equal(train_spoiled(of_dp(0), "h0.ln1.g", 1, message), E_INTERNAL);
    for (int rank = 2; rank < comm_world_size(); rank++) sprintf(wanted + strlen(wanted), ", %d", rank);
    assert_memory_equal(message, wanted, strlen(wanted));
}

/* Each element of a shard has one copy: with ZeRO-3 over all ranks nothing is there to compare with. */
TEST(test_a_shard_has_no_copy) {
    char message[256];
    assert_int_equal(train_spoiled(of_dp(3), "h0.ln1.g", 1, message), OK);
}

TEST(test_every_third_step_alone) {
    char message[256];
    struct plan p = watched(of_dp(0), 3);
    assert_int_equal(train_spoiled(p, "h0.ln1.g", 1, message), OK);
}

/* Two of six steps compare; each rank sends its rows to all others. */
TEST(test_the_bill_has_the_checksums) {
    struct run r;
    assert_ok(layout_open(&r, watched(of_dp(1), 3), WATCH_NOTHING));
    for (int step = 0; step < 6; step++) assert_ok(run_step(&r));
    const struct ledger *l = group_ledger(r.mesh.group[AXIS_MESH]);
    assert_int_equal(l->entry[COMM_ALL_GATHER].calls, 2);
    assert_close(l->entry[COMM_ALL_GATHER].bytes, 2 * 16.0 * r.program.n_params * (comm_world_size() - 1), 1e-9);
    assert_close(l->entry[COMM_ALL_GATHER].bytes, 6 * r.bill.wire_bytes[AXIS_MESH], 1e-9);
    run_destroy(&r);
}

TESTS(unit_test(test_layouts_of_all_techniques_have_equal_copies), unit_test(test_one_bit_of_one_copy_is_named),
      unit_test(test_a_shard_has_no_copy), unit_test(test_every_third_step_alone),
      unit_test(test_the_bill_has_the_checksums))
