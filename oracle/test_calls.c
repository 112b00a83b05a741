/* ranks: 1 2 4  device: cpu
 *
 * Collective calls of the ranks: written as the ledger counts them, read back, and compared within a group. */
#include "oracle/calls.h"
#include "lib/comm/comm_backend.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A new folder, the same on all ranks. */
static const char *folder_of(const char *name) {
    static char path[512];
    char make[1200];
    snprintf(path, sizeof path, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, sizeof path, UINT8, 0);
    snprintf(make, sizeof make, "rm -rf %s; mkdir -p %s", path, path);
    bool ok = !comm_is_rank_0() || system(make) == 0;
    assert_true(agree_all(ok));
    return path;
}

/* ---- written by comm ---- */
static bool pass_on(const struct group *g, float *x, float *y) {
    struct comm_request sent, received;
    int n = group_size(g), rank = group_rank(g);
    return comm_send_start(g, x, 7, FP32, (rank + 1) % n, 3, &sent) == OK &&
           comm_recv_start(g, y, 7, FP32, (rank + n - 1) % n, 3, &received) == OK && comm_wait(&received) == OK &&
           comm_wait(&sent) == OK;
}

TEST(test_calls_are_written_as_the_ledger_counts_them) {
    static float x[4 * 100], y[4 * 100];
    const char *folder = folder_of("calls-of-comm");
    struct group *g = group_world();
    struct call_log log;
    struct calls c = {.n_calls = 0};
    bool ok = call_log_init(&log) == OK && comm_all_reduce(g, x, 5, FP32, COMM_SUM) == OK;   /* before the log starts */
    group_ledger_reset(g);
    for (int step = 1; step <= 2 && ok; step++) {
        call_log_start(&log, step);
        ok = comm_all_reduce(g, x, 100, FP32, COMM_SUM) == OK &&
             comm_all_gather(g, y, x, 100, BF16) == OK && comm_reduce_scatter(g, x, y, 50, FP64) == OK &&
             comm_broadcast(g, x, 9, INT32, 0) == OK && pass_on(g, x, y);
        call_log_stop(&log);
        ok = call_log_write(&log, folder) == OK && ok;
    }
    double bytes = 0, all = 0;
    for (int op = 0; op < N_COMM_OPS; op++) bytes += group_ledger(g)->entry[op].bytes;
    ok = comm_all_reduce(g, &bytes, 1, FP64, COMM_SUM) == OK && ok;
    if (comm_is_rank_0() && comm_world_size() > 1) {
        ok = calls_check(folder, &c) == OK && c.n_findings == 0 && c.n_absent == 0 && c.n_groups == 1 && ok;
        ok = ok && c.n_calls == 2 * 6 * comm_world_size() && c.n_ranks == comm_world_size();
        for (int i = 0; i < c.n_groups; i++) all += c.group[i].bytes;
        ok = ok && all == bytes;
        for (int i = 0; i < c.n_calls; i++) ok = ok && c.call[i].sequence / 6 + 1 == c.call[i].step;
    }
    calls_close(&c);
    call_log_fini(&log);
    assert_true(agree_all(ok));
}

/* ---- written by others ---- */
static void write_lines(const char *folder, int rank, const char *const *line) {
    char path[600];
    snprintf(path, sizeof path, "%s/collectives-%d.jsonl", folder, rank);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; line[i]; i++)
        fprintf(f, "{\"rank\":%d,\"step\":1,\"sequence\":%d,\"bytes\":%d,%s}\n", rank, i, 10 * (i + 1), line[i]);
    fclose(f);
}
#define A "\"op\":\"all_reduce\",\"group\":[0,1,2],\"count\":4,\"dtype\":\"fp32\""
#define A_OF_5 "\"op\":\"all_reduce\",\"group\":[0,1,2],\"count\":5,\"dtype\":\"fp32\""
#define A_BF16 "\"op\":\"all_reduce\",\"group\":[0,1,2],\"count\":4,\"dtype\":\"bf16\""
#define B "\"op\":\"all_gather\",\"group\":[0,1,2],\"count\":4,\"dtype\":\"fp32\""
#define PAIR(op, count, peer, tag)                                                                                     \
    "\"op\":\"" op "\",\"group\":[0,1],\"name\":\"pp\",\"dtype\":\"fp32\",\"count\":" count          \
    ",\"peer\":" peer ",\"tag\":" tag
#define V(count) "\"op\":\"all_to_allv\",\"group\":[0,1,2],\"count\":" count ",\"dtype\":\"fp32\""
static const char *const RIGHT[] = {A, B, A, A_OF_5, NULL};

/* Ranks 0 and 2 make the right calls, rank 1 makes `line`. The finding has every text of `said`. */
static void assert_said(const char *const *line, enum call_fault fault, const char *const *said) {
    const char *folder = folder_of("calls-of-others");
    struct calls c;
    char text[CALL_TEXT_MAX] = "";
    for (int rank = 0; rank < 3; rank++) write_lines(folder, rank, rank == 1 ? line : RIGHT);
    assert_ok(calls_check(folder, &c));
    assert_int_equal(c.n_findings, said[0] ? 1 : 0);
    if (said[0]) {
        assert_int_equal(c.finding[0].fault, fault);
        call_finding_text(&c, &c.finding[0], text, sizeof text);
    }
    for (int i = 0; said[i]; i++)
        if (!strstr(text, said[i])) fail_msg("%s is not in: %s", said[i], text);
    calls_close(&c);
}
#define SAID(...) (const char *const[]){__VA_ARGS__, NULL}

TEST(test_a_rank_that_calls_something_else_is_named) {
    if (comm_world_size() > 1) return;
    assert_said(RIGHT, CALL_DIFFERS, SAID(NULL));
    assert_said(SAID(A, A, A, A_OF_5), CALL_DIFFERS,
                SAID("calls differ on rank 1", "step 1", "group (ranks 0, 1, 2)", "rank 1's call 1 is all_reduce of 4",
                     "rank 0's call 1 is all_gather of 4 fp32"));
    assert_said(SAID(A, B, A, A), CALL_DIFFERS, SAID("1's call 3 is all_reduce of 4", "call 3 is all_reduce of 5"));
    assert_said(SAID(A, B, A_BF16, A_OF_5), CALL_DIFFERS, SAID("rank 1's call 2 is all_reduce of 4 bf16"));
    assert_said(SAID(B, A, A, A_OF_5), CALL_SWAPPED, SAID("in another order on rank 1", "1's call 0 is all_gather"));
    assert_said(SAID(A, A, A_OF_5), CALL_MISSING,
                SAID("missing on rank 1", "rank 1's call 1 is all_reduce", "rank 0's call 1 is all_gather"));
    assert_said(SAID(A, B, A), CALL_MISSING, SAID("missing on rank 1", "1 makes no further one", "0's call 3"));
    assert_said(SAID(A, B, A_OF_5, A, A_OF_5), CALL_MORE, SAID("too many on rank 1", "1's call 2 is all_reduce of 5"));
    assert_said(SAID(A, B, A, A_OF_5, A_OF_5), CALL_MORE, SAID("too many on rank 1", "rank 0 makes no further one"));
}

TEST(test_parts_of_an_exchange_may_differ) {
    if (comm_world_size() > 1) return;
    const char *folder = folder_of("calls-uneven");
    struct calls c;
    write_lines(folder, 0, SAID(V("4"), A, V("8")));
    write_lines(folder, 1, SAID(V("5"), A, V("7")));
    assert_ok(calls_check(folder, &c));
    assert_int_equal(c.n_findings, 0);
    calls_close(&c);
}

/* Messages with one tag must be received in the order of sending; messages with two tags in any order. */
TEST(test_messages_are_received_as_they_were_sent) {
    if (comm_world_size() > 1) return;
    const char *folder = folder_of("calls-messages");
    struct calls c;
    char text[CALL_TEXT_MAX];
#define SENT(count, tag) PAIR("send", count, "1", tag)
#define TAKEN(count, tag) PAIR("recv", count, "0", tag)
    write_lines(folder, 0, SAID(SENT("4", "0"), SENT("5", "1"), SENT("6", "0")));
    write_lines(folder, 1, SAID(TAKEN("5", "1"), TAKEN("4", "0"), TAKEN("6", "0")));
    assert_ok(calls_check(folder, &c));
    assert_int_equal(c.n_findings, 0);
    assert_int_equal(c.group[0].calls, 6);
    assert_close(c.group[0].bytes, 120, 0);
    calls_close(&c);
    write_lines(folder, 1, SAID(TAKEN("5", "1"), TAKEN("4", "0"), TAKEN("7", "0")));
    assert_ok(calls_check(folder, &c));
    assert_int_equal(c.n_findings, 1);
    call_finding_text(&c, &c.finding[0], text, sizeof text);
    assert_non_null(strstr(text, "calls differ: step 1, group pp (ranks 0, 1)"));
    assert_non_null(strstr(text, "recv of 7 fp32 from rank 0"));
    calls_close(&c);
}

TEST(test_a_member_without_a_file_is_counted_and_none_at_all_is_no_error) {
    if (comm_world_size() > 1) return;
    const char *folder = folder_of("calls-absent");
    struct calls c;
    assert_ok(calls_check(folder, &c));
    assert_int_equal(c.n_ranks, 0);
    calls_close(&c);
    write_lines(folder, 0, RIGHT);
    write_lines(folder, 2, RIGHT);
    assert_ok(calls_check(folder, &c));
    assert_int_equal(c.n_findings, 0);
    assert_int_equal(c.n_absent, 1);
    calls_close(&c);
}

TEST(test_a_line_that_is_no_call_is_refused) {
    if (comm_world_size() > 1) return;
    const char *folder = folder_of("calls-wrong");
    struct calls c;
    write_lines(folder, 0, SAID(A, "\"op\":\"barrier\",\"group\":[1,2],\"count\":4,\"dtype\":\"fp32\""));
    assert_fails(calls_check(folder, &c), E_FORMAT, "collectives-0.jsonl, line 2", "a list with the rank");
    calls_close(&c);
    write_lines(folder, 0, SAID("\"op\":\"all_reduce\",\"group\":[0],\"count\":-4,\"dtype\":\"fp32\""));
    assert_fails(calls_check(folder, &c), E_FORMAT, "collectives-0.jsonl, line 1");
    calls_close(&c);
}

TESTS(unit_test(test_calls_are_written_as_the_ledger_counts_them),
      unit_test(test_a_rank_that_calls_something_else_is_named),
      unit_test(test_parts_of_an_exchange_may_differ), unit_test(test_messages_are_received_as_they_were_sent),
      unit_test(test_a_member_without_a_file_is_counted_and_none_at_all_is_no_error),
      unit_test(test_a_line_that_is_no_call_is_refused))
