/* ranks: 2 4 8  device: cpu */
/* All-reduce from sends and receives: sums that are exact in any order, at counts that the ranks do not divide;
 * messages and bytes in the group's ledger; equal bits on all ranks. Each test has its own group, so that a deadlock
 * does not disturb the next test. */
#include "lessons/02-collectives/all_reduce/all_reduce.h"
#include "lib/base/rng.h"
#include "lib/comm/comm_backend.h"
#include "tests/test.h"

#include <string.h>

typedef enum status way(const struct group *, float *, int64_t, float *);

enum { MOST = 200003, GUARD = 8 };
static const float guard = -12345;
/* the last is so large that a send waits for its receive */
static const int64_t counts[] = {1, 2, 3, 5, 7, 8, 64, 1000, 1001, MOST};
enum { N_COUNTS = sizeof counts / sizeof *counts };

static float all_x[MOST + 2 * GUARD], all_scratch[MOST + 2 * GUARD];
static float *const x = all_x + GUARD, *const scratch = all_scratch + GUARD;

/* A whole number that depends on rank and index. */
static float term(int rank, int64_t i) { return (float)((i * 7 + rank * 13) % 101 - 50); }
static float sum_at(const struct group *g, int64_t i) {
    float sum = 0;
    for (int r = 0; r < group_size(g); r++) sum += term(r, i);
    return sum;
}

static void fill(const struct group *g, int64_t count) {
    for (int i = 0; i < MOST + 2 * GUARD; i++) all_x[i] = all_scratch[i] = guard;
    for (int64_t i = 0; i < count; i++) x[i] = term(group_rank(g), i);
}

static enum status guards_stand(int64_t count) {
    for (int i = 1; i <= GUARD; i++) {
        if (x[-i] != guard || x[count + i - 1] != guard)
            return FAIL(E_INTERNAL, "x was written outside of its %lld elements", (long long)count);
        if (scratch[-i] != guard || scratch[count + i - 1] != guard)
            return FAIL(E_INTERNAL, "scratch was written outside of its %lld elements", (long long)count);
    }
    return OK;
}

/* Fail unless elements [from, to) of x are the sums. */
static enum status sums_are_right(const struct group *g, const char *what, int64_t count, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        if (!(x[i] == sum_at(g, i)))
            return FAIL(E_NUMERIC, "%s of %lld elements, rank %d of %d: x[%lld] is %g, the sum is %g", what,
                        (long long)count, group_rank(g), group_size(g), (long long)i, (double)x[i],
                        (double)sum_at(g, i));
    return guards_stand(count);
}

/* A short deadline for the exercise only, because a rank that fails at once waits for the agreement until the others
 * time out. After the first timeout the deadline is shorter, because deadlocks in all ten tests would take minutes. */
static double deadline_s = 2;

static enum status in_time(way *run, const struct group *g, int64_t count) {
    comm_configure(&(struct comm_settings){.timeout_s = deadline_s});
    enum status status = run(g, x, count, scratch);
    comm_configure(&(struct comm_settings){.timeout_s = 60});
    return status;
}

/* ---- a test runs on every rank of a group; the first failing count ends the test ---- */

typedef enum status check(const struct group *, const char *what, way *, int64_t count);

static enum status for_all_counts(const struct group *g, const char *what, way *run, check *one) {
    enum status status = OK;
    for (int k = 0; k < N_COUNTS && agree_all(status == OK); k++) {
        fill(g, counts[k]);
        group_ledger_reset((struct group *)g);
        status = one(g, what, run, counts[k]);
    }
    return status;
}

/* colour < 0: a group of one. */
static void test_in_group(int colour, const char *what, way *run, check *one) {
    struct group *g;
    enum status status = group_create("lesson", colour, comm_world_rank(), &g);
    if (status == OK) status = for_all_counts(g, what, run, one);
    bool all = agree_all(status == OK);
    if (!agree_all(status != E_TIMEOUT)) deadline_s = 0.5;
    if (all) group_destroy(&g);                          /* after a failure messages may be in flight */
    assert_ok(status);
    if (!all) fail_msg("another rank's part is wrong");
}

/* ---- sums ---- */

static enum status whole_sum(const struct group *g, const char *what, way *run, int64_t count) {
    TRY(in_time(run, g, count));
    return sums_are_right(g, what, count, 0, count);
}

static enum status my_part(const struct group *g, const char *what, way *run, int64_t count) {
    TRY(in_time(run, g, count));
    int n = group_size(g), r = group_rank(g);
    return sums_are_right(g, what, count, all_reduce_first(count, n, r), all_reduce_first(count, n, r + 1));
}

static enum status gather(const struct group *g, float *buffer, int64_t count, float *unused) {
    (void)unused;
    return all_gather_ring(g, buffer, count);
}
/* Only this rank's part must be right; the other elements are undefined. */
static enum status every_part(const struct group *g, const char *what, way *run, int64_t count) {
    int n = group_size(g), r = group_rank(g);
    for (int64_t i = 0; i < count; i++) {
        bool mine = i >= all_reduce_first(count, n, r) && i < all_reduce_first(count, n, r + 1);
        x[i] = mine ? sum_at(g, i) : 1e6F;
    }
    TRY(in_time(run, g, count));
    return sums_are_right(g, what, count, 0, count);
}

static void test_reduce_scatter_leaves_part_r_at_rank_r(void **state) {
    (void)state, test_in_group(0, "reduce-scatter", reduce_scatter_ring, my_part);
}
static void test_all_gather_brings_every_part(void **state) {
    (void)state, test_in_group(0, "all-gather", gather, every_part);
}
static void test_ring_sums(void **state) { (void)state, test_in_group(0, "ring", all_reduce_ring, whole_sum); }
static void test_tree_sums(void **state) { (void)state, test_in_group(0, "tree", all_reduce_tree, whole_sum); }
static void test_halving_doubling_sums(void **state) {
    (void)state, test_in_group(0, "halving-doubling", all_reduce_halving_doubling, whole_sum);
}

/* In a world of 4 or 8: three ranks, and groups of one. */
TEST(test_any_number_of_ranks) {
    int three = comm_world_rank() < 3 && comm_world_size() > 3 ? 0 : -1;
    test_in_group(three, "ring", all_reduce_ring, whole_sum);
    test_in_group(three, "tree", all_reduce_tree, whole_sum);
    test_in_group(three, "halving-doubling", all_reduce_halving_doubling, whole_sum);
}

/* ---- messages and bytes ---- */

static int log2_up(int n) {
    int l = 0;
    while ((1 << l) < n) l++;
    return l;
}

/* This rank's messages, without empty ones, and bytes; the bytes of all ranks. */
static enum status sent(const struct group *g, int64_t *messages, double *bytes, double *of_all) {
    const struct ledger_entry *e = group_ledger(g)->entry;
    for (enum comm_op op = 0; op < N_COMM_OPS; op++)
        if (op != COMM_SEND && op != COMM_RECV && e[op].calls > 0)
            return FAIL(E_CONFIG, "%s was called; only sends and receives may be", comm_op_name(op));
    *messages = e[COMM_SEND].calls;
    *of_all = *bytes = e[COMM_SEND].bytes;
    return comm_all_reduce(g, of_all, 1, FP64, COMM_SUM);
}

/* Parts differ by at most an element, so a rank's bytes differ from the mean by at most two elements. The total is
 * exact. */
static enum status sends_the_least(const struct group *g, const char *what, way *run, int64_t count,
                                   int messages_wanted) {
    int n = group_size(g);
    int64_t messages;
    double bytes, of_all, wanted = 2 * 4.0 * (double)count * (n - 1) / n;
    enum status status = in_time(run, g, count);
    TRY(sent(g, &messages, &bytes, &of_all));
    TRY(status);
    if (of_all != 2 * 4.0 * (double)count * (n - 1) || fabs(bytes - wanted) > 4.0 * 2 * log2_up(2 * n))
        return FAIL(E_CONFIG,
                    "%s of %lld bytes: rank %d of %d sent %.0f bytes and all ranks %.0f; wanted 2 S (n-1)/n = %.0f and "
                    "%.0f",
                    what, 4 * (long long)count, group_rank(g), n, bytes, of_all, wanted, wanted * n);
    if (messages > messages_wanted || (count >= n && messages != messages_wanted))
        return FAIL(E_CONFIG, "%s of %lld elements: rank %d of %d sent %lld messages; wanted %d", what,
                    (long long)count, group_rank(g), n, (long long)messages, messages_wanted);
    return OK;
}
static enum status ring_sends(const struct group *g, const char *what, way *run, int64_t count) {
    return sends_the_least(g, what, run, count, 2 * (group_size(g) - 1));
}
static enum status halving_sends(const struct group *g, const char *what, way *run, int64_t count) {
    return sends_the_least(g, what, run, count, 2 * log2_up(group_size(g)));
}

static enum status tree_sends(const struct group *g, const char *what, way *run, int64_t count) {
    int n = group_size(g), r = group_rank(g);
    int64_t messages;
    double bytes, of_all;
    enum status status = in_time(run, g, count);
    TRY(sent(g, &messages, &bytes, &of_all));
    TRY(status);
    if (of_all != 2 * 4.0 * (double)count * (n - 1))
        return FAIL(E_CONFIG, "%s of %lld bytes over %d ranks: %.0f bytes were sent in all; wanted 2 (n-1) S = %.0f",
                    what, 4 * (long long)count, n, of_all, 8.0 * (double)count * (n - 1));
    if (r == 0 && messages != log2_up(n))
        return FAIL(E_CONFIG, "%s over %d ranks: rank 0 sent %lld messages; wanted ceil(log2 n) = %d", what, n,
                    (long long)messages, log2_up(n));
    return OK;
}

static void test_ring_sends_the_least(void **state) {
    (void)state, test_in_group(0, "ring", all_reduce_ring, ring_sends);
}
static void test_tree_takes_log_n_rounds(void **state) {
    (void)state, test_in_group(0, "tree", all_reduce_tree, tree_sends);
}
static void test_halving_doubling_sends_the_least(void **state) {
    (void)state, test_in_group(0, "halving-doubling", all_reduce_halving_doubling, halving_sends);
}

/* ---- the same bits ---- */

/* Sum numbers whose sum depends on the order, and compare each rank's bits with rank 0's. */
static enum status same_bits(const struct group *g, const char *what, way *run, int64_t count) {
    static float of_rank_0[MOST];
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)rng_normal(1, rng_stream("x"), (uint64_t)(i * 64 + group_rank(g)));
    TRY(in_time(run, g, count));
    memcpy(of_rank_0, x, (size_t)count * sizeof *x);
    TRY(comm_broadcast(g, of_rank_0, count, FP32, 0));
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&x[i], &of_rank_0[i], sizeof *x) != 0)
            return FAIL(E_NUMERIC, "%s of %lld elements: x[%lld] is %.9g on rank %d and %.9g on rank 0", what,
                        (long long)count, (long long)i, (double)x[i], group_rank(g), (double)of_rank_0[i]);
    return OK;
}

TEST(test_same_bits_on_every_rank) {
    test_in_group(0, "ring", all_reduce_ring, same_bits);
    test_in_group(0, "tree", all_reduce_tree, same_bits);
    test_in_group(0, "halving-doubling", all_reduce_halving_doubling, same_bits);
}

TESTS(unit_test(test_reduce_scatter_leaves_part_r_at_rank_r), unit_test(test_all_gather_brings_every_part),
      unit_test(test_ring_sums), unit_test(test_ring_sends_the_least), unit_test(test_tree_sums),
      unit_test(test_tree_takes_log_n_rounds), unit_test(test_halving_doubling_sums),
      unit_test(test_halving_doubling_sends_the_least), unit_test(test_any_number_of_ranks),
      unit_test(test_same_bits_on_every_rank))
