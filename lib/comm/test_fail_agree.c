/* ranks: 1 2 4  device: cpu */
/* Agreeing on a failure: one rank prints its message, and all ranks get its code. */
#include "tests/test.h"

#include "lib/comm/comm.h"

#include <stdio.h>
#include <string.h>

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
        ok &= lines_in(said) == me && (!me || strstr(said, "E_DATA test_fail_agree.c")) && !*status_text();
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

TESTS(unit_test(test_a_warning_is_no_error), unit_test(test_all_well), unit_test(test_one_rank_fails),
      unit_test(test_lowest_rank_speaks), unit_test(test_timeout_does_not_wait), unit_test(test_share_tells_all_why))
