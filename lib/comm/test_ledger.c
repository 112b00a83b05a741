/* ranks: 1 2 4  device: cpu */
/* The ledger: the bytes of an operation follow the published formulas, and every call is counted once.
 * Nodes, and agreement on failures. */
#include "tests/test.h"

#include "lib/comm/comm.h"
#include "lib/comm/comm_backend.h"

#include <stdio.h>
#include <string.h>
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

/* ---- emulated nodes; and nodes that are hosts, with all ranks on this host ---- */
TEST(test_blocks_and_rounds) {
    static const int block[7] = {0, 0, 0, 1, 1, 1, 2}, cyclic[7] = {0, 1, 2, 0, 1, 2, 0};
    for (int r = 0; r < 7; r++) {
        assert_int_equal(node_emulated(&(struct nodes){3, false}, r, 7), block[r]);
        assert_int_equal(node_emulated(&(struct nodes){3, true}, r, 7), cyclic[r]);
    }
}

TEST(test_this_host_is_one_node) {
    const struct comm_settings before = *comm_settings_in_force();
    struct comm_settings emulated = before;
    bool ok = true;
    for (int r = 0; r < comm_world_size(); r++) ok &= comm_node(r) == 0;
    emulated.nodes.ranks_per_node = 1;
    comm_configure(&emulated);
    for (int r = 0; r < comm_world_size(); r++)
        ok &= comm_node(r) == r && (comm_world_size() == 1 || group_world()->node[r] == r);
    comm_configure(&before);
    assert_true(agree_all(ok));
}

/* ---- agreeing on a failure: one rank prints its message, and all ranks get its code ---- */
/* fail_agree, and what this rank wrote to standard error meanwhile. */
static enum status agree_captured(enum status mine, char *said, size_t bytes) {
    test_stderr_keep();
    enum status agreed = fail_agree(group_world(), mine);
    snprintf(said, bytes, "%s", test_stderr_text());
    return agreed;
}

static int lines_in(const char *text) {
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

TEST(test_all_well) {
    char said[2048];
    bool ok = agree_captured(OK, said, sizeof said) == OK && !*said;
    assert_true(agree_all(ok));
}

TEST(test_one_rank_fails) {
    bool ok = true;
    for (int who = 0; who < comm_world_size(); who++) {
        char said[2048];
        bool me = comm_world_rank() == who;
        enum status mine = me ? FAIL(E_DATA, "file number %d is short", who) : OK;
        ok &= agree_captured(mine, said, sizeof said) == E_DATA;
        ok &= lines_in(said) == me && (!me || strstr(said, "E_DATA test_ledger.c")) && !*status_text();
    }
    assert_true(agree_all(ok));
}

/* All ranks fail with different codes. Only the lowest rank prints its line, and all ranks get its code. */
TEST(test_lowest_rank_speaks) {
    char said[2048];
    int rank = comm_world_rank();
    enum status mine = rank == 0 ? FAIL(E_MEMORY, "first") : FAIL(E_IO, "another");
    bool ok = agree_captured(mine, said, sizeof said) == E_MEMORY;
    ok &= rank == 0 ? lines_in(said) == 1 && strstr(said, "first") != NULL : !*said;
    ok &= !*status_text();
    assert_true(agree_all(ok));
}

/* A rank with E_TIMEOUT asks no other rank, because its peers may never answer. */
TEST(test_timeout_does_not_wait) {
    char said[2048];
    bool ok = true;
    if (comm_is_rank_0()) {
        enum status mine = FAIL(E_TIMEOUT, "no one came");
        ok = agree_captured(mine, said, sizeof said) == E_TIMEOUT && strstr(said, "no one came");
    }
    assert_true(agree_all(ok));
}

/* One rank fails. No rank prints, and every rank gets the failed rank's message. */
TEST(test_share_tells_all_why) {
    bool ok = true;
    for (int who = 0; who < comm_world_size(); who++) {
        char text[64];
        enum status mine = comm_world_rank() == who ? FAIL(E_CONFIG, "rank %d cannot", who) : OK;
        test_stderr_keep();
        ok &= fail_share(group_world(), mine, text, sizeof text) == E_CONFIG;
        ok &= !*test_stderr_text() && !*status_text();
        char expected[64];
        snprintf(expected, sizeof expected, "rank %d cannot", who);
        ok &= !strcmp(text, expected);
    }
    char text[64] = "old";
    ok &= fail_share(group_world(), OK, text, sizeof text) == OK && !*text;
    assert_true(agree_all(ok));
}

/* A warning must not look like an error line, because launch would treat it as the job's error. */
TEST(test_a_warning_is_no_error) {
    bool ok = true;
    for (int who = 0; who < comm_world_size(); who++) {
        bool me = comm_world_rank() == who;
        enum status mine = me ? FAIL(E_IO, "folder %d is full", who) : OK;
        test_stderr_keep();
        ok &= fail_warn(group_world(), mine) == E_IO;
        char said[2048];
        snprintf(said, sizeof said, "%s", test_stderr_text());
        ok &= lines_in(said) == me && !strstr(said, "E_IO") && !*status_text();
        ok &= !me || (strstr(said, "warning: folder ") && strstr(said, "is full; training continues"));
    }
    assert_true(agree_all(ok && fail_warn(group_world(), OK) == OK));
}

TESTS(unit_test(test_formulas), unit_test(test_formulas_agree_with_each_other), unit_test(test_operations_are_counted),
      unit_test(test_waiting_is_counted_where_it_happens),
      unit_test(test_blocks_and_rounds), unit_test(test_this_host_is_one_node),
      unit_test(test_a_warning_is_no_error), unit_test(test_all_well), unit_test(test_one_rank_fails),
      unit_test(test_lowest_rank_speaks), unit_test(test_timeout_does_not_wait), unit_test(test_share_tells_all_why))
