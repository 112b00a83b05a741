/* ranks: 2 4  device: cpu */
/* --check-collectives: a mismatch is one sentence, equal on every member. Afterwards the group still works. */
#include "lib/base/clock.h"
#include "lib/comm/comm_backend.h"
#include "lib/comm/hops/comm_hops.h"
#include "lib/comm/hops/hop_walk.h"
#include "tests/test.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Sums that are started together take limited memory, may be waited for in any order, and are correct
 * (comm_hops.c). */

static float term(int rank, int64_t i) { return (float)((i * 7 + rank * 13) % 101 - 50); }
static float sum_at(int64_t i) {
    float sum = 0;
    for (int r = 0; r < comm_world_size(); r++) sum += term(r, i);
    return sum;
}

/* The bytes that a sum takes on this rank, by the world's algorithm. */
static int64_t memory_of(enum comm_op op, int64_t count) {
    const struct comm_call call = {.op = op, .count = count, .dtype = FP32};
    const struct hop_shape shape = {op, comm_world_size(), 0, count, HOP_SEGMENT_BYTES / 4, HOP_LINE_BYTES / 4,
                                    group_world()->node};
    const struct comm_algorithm *algorithm;
    struct hop_table table;
    assert_ok(comm_hops_choose(group_world(), &call, &algorithm));
    assert_ok(hops_make(algorithm, &shape, comm_world_rank(), &table));
    int64_t bytes = hop_walk_bytes(&table, 4);
    hop_table_free(&table);
    return bytes;
}

enum { MANY = 12 };
struct sums { int n; enum comm_op op; int64_t count; float *x[MANY], *part[MANY]; struct comm_request request[MANY]; };

static bool start(struct sums *s) {
    bool ok = true;
    for (int k = 0; k < s->n; k++) {
        int64_t whole = s->op == COMM_REDUCE_SCATTER ? s->count * comm_world_size() : s->count;
        s->x[k] = malloc((size_t)whole * sizeof(float));
        s->part[k] = malloc((size_t)s->count * sizeof(float));
        for (int64_t i = 0; i < whole; i++) s->x[k][i] = term(comm_world_rank(), i + k);
        ok &= (s->op == COMM_ALL_REDUCE ? comm_all_reduce_start(group_world(), s->x[k], whole, FP32, COMM_SUM,
                                                                &s->request[k])
                                        : comm_reduce_scatter_start(group_world(), s->x[k], s->part[k], s->count, FP32,
                                                                    &s->request[k])) == OK;
    }
    return ok;
}

/* Even ranks wait for the first sum first, odd ranks for the last, which may not have begun on an even rank. */
static bool finish(struct sums *s) {
    bool ok = true;
    int rank = comm_world_rank();
    for (int k = 0; k < s->n; k++) ok &= comm_wait(&s->request[rank % 2 ? s->n - 1 - k : k]) == OK;
    for (int k = 0; k < s->n; k++) {
        int64_t first = s->op == COMM_REDUCE_SCATTER ? s->count * rank : 0;
        const float *sum = s->op == COMM_REDUCE_SCATTER ? s->part[k] : s->x[k];
        for (int64_t i = 0; i < s->count; i++) ok &= sum[i] == sum_at(first + i + k);
        free(s->x[k]);
        free(s->part[k]);
    }
    return ok;
}

/* Run n sums at once. @return the most memory that they took at any time */
static int64_t run(int n, enum comm_op op, int64_t count) {
    struct sums s = {.n = n, .op = op, .count = count};
    group_world()->ledger.hop_bytes = 0;
    if (comm_world_rank() == 0) usleep(200000);                      /* so that no sum ends before all have started */
    bool ok = start(&s);
    ok = finish(&s) && ok;
    assert_true(agree_all(ok));
    assert_int_equal(group_world()->hop_bytes, 0);
    return group_world()->ledger.hop_bytes;
}

/* A sum takes two segments, so eight sums take 4 MiB. The ninth begins when the first ends, without a wait for it. */
TEST(test_many_sums_take_turns) {
    const int64_t count = HOP_SEGMENT_BYTES / 4 * comm_world_size();
    assert_int_equal(memory_of(COMM_ALL_REDUCE, count), 2 * HOP_SEGMENT_BYTES);
    int64_t took = run(MANY, COMM_ALL_REDUCE, count);
    assert_true(took > 0 && took <= HOP_MEMORY_BYTES);
    assert_true(agree_max((double)took) == HOP_MEMORY_BYTES);
    assert_true((run(3, COMM_ALL_REDUCE, 1000) == 0) == comm_has_library());
}

/* A ring's reduce-scatter needs a copy of the whole, which is more than a group's limit. So the sums run one by one. */
TEST(test_what_is_larger_goes_alone) {
    const struct comm_settings before = *comm_settings_in_force();
    struct comm_settings settings = before;
    settings.rule[0].algorithm = comm_algorithm_find("ring");
    comm_configure(&settings);
    const int64_t count = HOP_MEMORY_BYTES / 4;
    int64_t one = memory_of(COMM_REDUCE_SCATTER, count), took = run(3, COMM_REDUCE_SCATTER, count);
    comm_configure(&before);
    assert_true(one > HOP_MEMORY_BYTES);
    assert_int_equal(took, one);
}

/* A rank that only tests the last sum, and never waits, advances the older ones until the last is done. */
TEST(test_looking_at_the_last_moves_the_line) {
    struct sums s = {.n = MANY, .op = COMM_ALL_REDUCE, .count = HOP_SEGMENT_BYTES / 4 * comm_world_size()};
    bool ok = start(&s), done = false;
    for (double until_s = clock_s() + 60; !done && ok && clock_s() < until_s; sched_yield())
        ok &= comm_test(&s.request[MANY - 1], &done) == OK;
    ok = finish(&s) && ok && done;
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_different_operations), unit_test(test_different_counts), unit_test(test_different_types),
      unit_test(test_different_reductions), unit_test(test_different_roots), unit_test(test_agreement_passes),
      unit_test(test_many_sums_take_turns), unit_test(test_what_is_larger_goes_alone),
      unit_test(test_looking_at_the_last_moves_the_line))
