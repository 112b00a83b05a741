/* ranks: 4  device: cpu */
/* At a deadline the error line names the missing rank, and the operations in which other ranks wait. Late operations
 * still end. */
#include "tests/test.h"

#include "lib/comm/flight/comm_roll.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Longer than a deadline and both waits of a roll call, so that waiting ranks have answered before the late ranks
 * call. */
enum { LATE_MS = 3200 };

static char line[2048];
static float incoming[4], outgoing[4]; /* static: an operation that was given up still writes here when its peer
                                        * comes */

/* Wait with a deadline of 0.2 s, and keep the error line. */
static enum status wait_briefly(struct comm_request *request) {
    struct comm_settings before = *comm_settings_in_force(), brief = before;
    brief.timeout_s = 0.2;
    comm_configure(&brief);
    enum status status = comm_wait(request);
    comm_configure(&before);
    snprintf(line, sizeof line, "%s", status_text());
    status_clear();
    return status;
}

static bool line_has(const char *words) {
    if (strstr(line, words)) return true;
    print_message("expected '%s' in: %s\n", words, line);
    return false;
}

static bool recv_late_from(int peer) {
    struct comm_request request;
    return comm_recv_start(group_world(), incoming, 4, FP32, peer, 9, &request) == OK &&
           wait_briefly(&request) == E_TIMEOUT && !request.handle;
}

static bool send_to(int peer) {
    struct comm_request request;
    return comm_send_start(group_world(), outgoing, 4, FP32, peer, 9, &request) == OK && comm_wait(&request) == OK;
}

static void be_late(bool looking_at_mail) {
    double until_s = clock_s() + LATE_MS * 1e-3;
    struct timespec nap = {0, looking_at_mail ? 2000000L : LATE_MS % 1000 * 1000000L};
    if (!looking_at_mail) nap.tv_sec = LATE_MS / 1000;
    do {
        nanosleep(&nap, NULL);
        if (looking_at_mail) comm_progress();
    } while (clock_s() < until_s);
}

static bool recv_patiently_from(int peer) {
    struct comm_request request;
    return comm_recv_start(group_world(), incoming, 4, FP32, peer, 9, &request) == OK && comm_wait(&request) == OK;
}

/* Rank 0 waits for 1, which waits with a long deadline for 2, which computes but reads its mail. Rank 3 reads no mail.
 * No rank waits for rank 3 in an operation, but the line names it, too. */
static bool a_chain(int rank) {
    bool ok = true;
    outgoing[0] = (float)rank;
    if (rank == 0) {
        ok &= recv_late_from(1);
        ok &= line_has("E_TIMEOUT comm_wait.c") && line_has("within 0.2 s; no answer from rank 3 (stopped");
        ok &= line_has("rank 1 waits in recv #") && line_has(" of group world (4 ranks) from rank 2");
        ok &= line_has("rank 2 is computing");
    }
    if (rank == 1) ok &= recv_patiently_from(2);
    if (rank >= 2) be_late(rank == 2);
    if (rank == 1 || rank == 2) ok &= send_to(rank - 1);
    return ok;
}

/* Wait until the operations that were given up have ended, after their peers have called. */
static bool all_ended(void) {
    double until_s = clock_s() + 20.0;
    while (!comm_given_up_done() && clock_s() < until_s) comm_progress();
    return comm_given_up_done();
}

/* Half of the ranks wait in a collective, and half in a message. All deadlines pass at nearly the same time, and all
 * ranks answer. Rank 0 may report after one second. Lower ranks have pinged rank 3, so it waits for a second more. It
 * starts a little later, so that the pings come before its own deadline even on a busy machine. */
static bool a_disagreement(int rank) {
    const struct timespec later = {0, 300000000};
    struct comm_request request;
    double from_s = clock_s();
    if (rank == 3) nanosleep(&later, NULL);
    static int32_t x = 1;
    bool ok = true;
    if (rank >= 2) {
        ok &= recv_late_from(rank - 2);
        ok &= line_has("; rank 0 waits in all_reduce #");
        if (rank == 3) ok &= clock_s() - from_s > 2.1;
    }
    ok &= comm_all_reduce_start(group_world(), &x, 1, INT32, COMM_SUM, &request) == OK;
    if (rank < 2) {
        ok &= wait_briefly(&request) == E_TIMEOUT;
        ok &= line_has("within 0.2 s; rank 2 waits in recv #") && line_has("; rank 3 waits in recv #");
        ok &= send_to(rank + 2);
    } else {
        ok &= comm_wait(&request) == OK;
    }
    ok &= comm_barrier(group_world()) == OK && all_ended();
    return ok && x == 4;
}

TEST(test_a_chain_is_followed_to_its_end) {
    bool ok = a_chain(comm_world_rank());
    ok &= comm_barrier(group_world()) == OK && all_ended();
    if (comm_world_rank() <= 1) ok &= incoming[0] == (float)(comm_world_rank() + 1); /* the late message arrived */
    assert_true(agree_all(ok));
}

TEST(test_a_disagreement_is_shown) {
    assert_true(agree_all(a_disagreement(comm_world_rank())));
}

TESTS(unit_test(test_a_chain_is_followed_to_its_end), unit_test(test_a_disagreement_is_shown))
