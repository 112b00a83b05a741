/* ranks: 1 2 4  device: cpu */
/* The ledger: the bytes of an operation follow the published formulas, and every call is counted once. */
#include "tests/test.h"

#include "lib/comm/comm_backend.h"

#include <time.h>

/* By hand, S = 8000 bytes over n = 4 ranks: a ring passes n-1 = 3 pieces of S/n = 2000 bytes, and all_reduce passes
 * them twice. */
TEST(test_formulas) {
    assert_close(comm_algorithm_bytes(COMM_ALL_REDUCE, 4, 8000), 12000, 0);
    assert_close(comm_algorithm_bytes(COMM_ALL_GATHER, 4, 8000), 6000, 0);
    assert_close(comm_algorithm_bytes(COMM_REDUCE_SCATTER, 4, 8000), 6000, 0);
    assert_close(comm_algorithm_bytes(COMM_ALL_TO_ALL, 4, 8000), 6000, 0);
    assert_close(comm_algorithm_bytes(COMM_BROADCAST, 4, 8000), 8000, 0);
    assert_close(comm_algorithm_bytes(COMM_REDUCE, 4, 8000), 8000, 0);
    assert_close(comm_algorithm_bytes(COMM_SEND, 4, 8000), 8000, 0);
    assert_close(comm_algorithm_bytes(COMM_RECV, 4, 8000), 0, 0);
    assert_close(comm_algorithm_bytes(COMM_BARRIER, 4, 0), 0, 0);
}

/* all_reduce sends the bytes of reduce_scatter and all_gather together. A group of one rank sends none. */
TEST(test_formulas_agree_with_each_other) {
    for (int n = 1; n <= 64; n++) {
        double halves =
            comm_algorithm_bytes(COMM_REDUCE_SCATTER, n, 960) + comm_algorithm_bytes(COMM_ALL_GATHER, n, 960);
        assert_close(comm_algorithm_bytes(COMM_ALL_REDUCE, n, 960), halves, 0);
    }
    for (enum comm_op op = 0; op < N_COMM_OPS; op++) assert_close(comm_algorithm_bytes(op, 1, 960), 0, 0);
}

struct counts { bool calls_ok, bytes_ok, wait_ok, reset_ok; };

static struct counts count_some_operations(struct group *group) {
    static float x[4 * 100], y[100];
    double n = group_size(group), others = (n - 1) / n;
    bool ok = true;
    for (int i = 0; i < 3; i++) ok &= comm_all_reduce(group, x, 100, FP32, COMM_SUM) == OK;
    ok &= comm_all_gather(group, y, x, 100, FP32) == OK;
    ok &= comm_reduce_scatter(group, x, y, 100, BF16) == OK;
    ok &= comm_barrier(group) == OK;
    const struct ledger_entry *e = group_ledger(group)->entry;
    struct counts c = {
        .calls_ok = ok && e[COMM_ALL_REDUCE].calls == 3 && e[COMM_ALL_GATHER].calls == 1 &&
                    e[COMM_REDUCE_SCATTER].calls == 1 && e[COMM_BARRIER].calls == 1 && e[COMM_BROADCAST].calls == 0,
        /* a part has 100 elements; the formulas use the whole buffer, which has n parts */
        .bytes_ok = e[COMM_ALL_REDUCE].bytes == 3 * 2 * 400 * others && e[COMM_ALL_GATHER].bytes == n * 400 * others &&
                    e[COMM_REDUCE_SCATTER].bytes == n * 200 * others && e[COMM_BARRIER].bytes == 0,
        .wait_ok = n == 1 ? e[COMM_ALL_REDUCE].wait_s == 0 : e[COMM_ALL_REDUCE].wait_s > 0,
    };
    group_ledger_reset(group);
    c.reset_ok = e[COMM_ALL_REDUCE].calls == 0 && e[COMM_ALL_GATHER].bytes == 0 && e[COMM_BARRIER].wait_s == 0;
    return c;
}

TEST(test_operations_are_counted) {
    struct group *group;
    enum status made = group_create("count", 0, 0, &group);
    struct counts c = {0};
    if (agree_all(made == OK)) {
        c = count_some_operations(group);
        group_destroy(&group);
    }
    assert_true(agree_all(c.calls_ok));
    assert_true(agree_all(c.bytes_ok));
    assert_true(agree_all(c.wait_ok));
    assert_true(agree_all(c.reset_ok));
}

/* Rank 0 is 200 ms late: the other ranks' ledgers count the wait, and rank 0's does not. */
TEST(test_waiting_is_counted_where_it_happens) {
    struct group *world = group_world();
    bool ok = comm_barrier(world) == OK;
    group_ledger_reset(world);
    struct timespec nap = {0, 200000000L};
    if (comm_is_rank_0()) nanosleep(&nap, NULL);
    ok &= comm_barrier(world) == OK;
    double wait_s = group_ledger(world)->entry[COMM_BARRIER].wait_s;
    if (!comm_is_rank_0()) ok &= wait_s > 0.05 && wait_s < 30; /* the first barrier left them uneven */
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_formulas), unit_test(test_formulas_agree_with_each_other), unit_test(test_operations_are_counted),
      unit_test(test_waiting_is_counted_where_it_happens))
