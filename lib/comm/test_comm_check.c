/* ranks: 2 4  device: cpu */
/* --check-collectives: a mismatch is one sentence, equal on every member. Afterwards the group still works. */
#include "tests/test.h"

#include "lib/comm/comm_backend.h"

#include <stdio.h>
#include <string.h>

static float x[1000], y[1000];

struct outcome { enum status status; char line[512]; };

/* Run one call with the check on, and keep its error line. */
static struct outcome checked(enum status (*call)(void)) {
    struct comm_settings before = *comm_settings_in_force(), with_check = before;
    with_check.check_collectives = true;
    comm_configure(&with_check);
    struct outcome outcome = {.status = call()};
    comm_configure(&before);
    snprintf(outcome.line, sizeof outcome.line, "%s", status_text());
    status_clear();
    return outcome;
}

/* Has every rank E_COMM, with these words in its line, and does a plain collective still work? */
static bool all_say(const struct outcome *outcome, const char *one, const char *other) {
    bool said = outcome->status == E_COMM && strstr(outcome->line, one) && strstr(outcome->line, other);
    if (!said) print_message("expected '%s' and '%s', got: %s\n", one, other, outcome->line);
    double ones = 1;
    said &= comm_all_reduce(group_world(), &ones, 1, FP64, COMM_SUM) == OK && ones == comm_world_size();
    return agree_all(said);
}

static bool last(void) { return comm_world_rank() == comm_world_size() - 1; }

static enum status different_operation(void) {
    if (last()) return comm_all_reduce(group_world(), x, 100, FP32, COMM_SUM);
    return comm_all_gather(group_world(), y, x, 50, FP32);
}
static enum status different_count(void) {
    return comm_all_reduce(group_world(), x, last() ? 100 : 101, FP32, COMM_SUM);
}
static enum status different_type(void) {
    return comm_reduce_scatter(group_world(), x, y, 10, last() ? BF16 : FP16);
}
static enum status different_reduction(void) {
    return comm_all_reduce(group_world(), x, 10, FP32, last() ? COMM_MAX : COMM_SUM);
}
static enum status different_root(void) {
    return comm_broadcast(group_world(), x, 10, FP32, last() ? 1 : 0);
}
static enum status all_the_same(void) {
    struct comm_request request;
    TRY(comm_barrier(group_world()));
    TRY(comm_reduce_start(group_world(), x, 10, FP32, COMM_MIN, 1, &request));
    TRY(comm_wait(&request));
    TRY(comm_all_to_all_start(group_world(), x, y, 10, FP32, &request));
    TRY(comm_wait(&request));
    return comm_all_gather(group_self(), x, y, 10, FP32);
}

TEST(test_different_operations) {
    struct outcome o = checked(different_operation);
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d calls", comm_world_size() - 1);
    /* the last rank is the first that differs from rank 0 */
    assert_true(all_say(&o, rank, "calls all_reduce of 100 fp32, rank 0 all_gather of 50 fp32 (operation #"));
}
TEST(test_different_counts) {
    struct outcome o = checked(different_count);
    assert_true(all_say(&o, "all_reduce of 100 fp32", "all_reduce of 101 fp32"));
}
TEST(test_different_types) {
    struct outcome o = checked(different_type);
    assert_true(all_say(&o, "reduce_scatter of 10 bf16", "rank 0 reduce_scatter of 10 fp16"));
}
TEST(test_different_reductions) {
    struct outcome o = checked(different_reduction);
    assert_true(all_say(&o, "all_reduce (max) of 10 fp32", "rank 0 all_reduce of 10 fp32"));
}
TEST(test_different_roots) {
    struct outcome o = checked(different_root);
    assert_true(all_say(&o, "broadcast of 10 fp32 with root 1", "with root 0"));
}
TEST(test_agreement_passes) {
    struct outcome o = checked(all_the_same);
    assert_true(agree_all(o.status == OK));
}

TESTS(unit_test(test_different_operations), unit_test(test_different_counts), unit_test(test_different_types),
      unit_test(test_different_reductions), unit_test(test_different_roots), unit_test(test_agreement_passes))
