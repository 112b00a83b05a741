/* ranks: 1  device: cpu
 *
 * Records of applied gradients: orders that no run can follow, and files that are not records. */
#include "dp_variants/server/server_log.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

/* ---- orders that cannot be followed ---- */
static bool never(const void *self, int64_t clock) { return self && clock < 0; }
static bool at_1(const void *self, int64_t clock) { return !self && clock == 1; }

/* Two servers, two workers, two clocks; rows as server, worker, clock, version, version. */
static struct server_log log_of(const int rows[][5], int n) {
    struct server_log log;
    server_log_init(&log, 2, 2);
    for (int i = 0; i < n; i++) {
        int64_t *row = server_log_add(&log, rows[i][0]);
        row[LOG_WORKER] = rows[i][1], row[LOG_CLOCK] = rows[i][2], row[LOG_MICROSECONDS] = 0;
        row[LOG_VERSION] = rows[i][3], row[LOG_VERSION + 1] = rows[i][4];
    }
    return log;
}
static const int TURNS[8][5] = {{0, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 0, 1, 1, 1}, {0, 1, 1, 2, 2},
                                {1, 0, 0, 0, 0}, {1, 1, 0, 0, 0}, {1, 0, 1, 1, 1}, {1, 1, 1, 2, 2}};
static enum status check_turns(int row, int cell, int value, int n, server_meets *meets) {
    int rows[8][5];
    memcpy(rows, TURNS, sizeof rows);
    if (row >= 0) rows[row][cell] = value;
    struct server_log log = log_of(rows, n);
    enum status status = server_log_check(&log, 2, meets, NULL);
    server_log_fini(&log);
    return status;
}

TEST(test_an_order_that_cannot_be_followed_is_refused) {
    /* a circle: worker 0's clock 1 needs weights of server 1 after worker 1's clock 1, which needs weights of server 0
     * after worker 0's clock 1 */
    const int circle[8][5] = {{0, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 0, 1, 2, 3}, {0, 1, 1, 3, 2},
                              {1, 0, 0, 0, 0}, {1, 1, 0, 0, 0}, {1, 1, 1, 3, 2}, {1, 0, 1, 2, 3}};
    struct server_log log = log_of(circle, 8);
    assert_ok(check_turns(-1, 0, 0, 8, never));
    assert_fails(check_turns(-1, 0, 0, 7, never), E_CONFIG, "server 1", "gradient 4 of 4", "2 clocks");
    assert_fails(check_turns(2, 1, 1, 8, never), E_CONFIG, "worker 1's clock 1", "twice");
    assert_fails(check_turns(3, 2, 2, 8, never), E_CONFIG, "clock 2", "2 steps");
    assert_fails(check_turns(3, 3, 1, 8, never), E_CONFIG, "worker 1's clock 1", "server 0");
    assert_fails(check_turns(2, 3, 0, 3, never), E_CONFIG, "server 0", "gradient 3 of 4");   /* lacks its own push */
    assert_fails(check_turns(-1, 0, 0, 8, at_1), E_CONFIG, "worker 0", "clock 1", "--eval-every");
    assert_fails(server_log_check(&log, 2, never, NULL), E_CONFIG, "can never apply");
    server_log_fini(&log);
}

TEST(test_a_file_that_is_no_record_is_refused) {
    struct server_log log;
    const char *texts[] = {"0 0 0 0\n", "0 0 0 0 0 7\n", "0 3 0 0 0\n", "0 x 0 0 0\n"};
    const char *path = test_path("bad");
    assert_fails(server_log_read(&log, "/nowhere/order", 1, 2), E_DATA, "/nowhere/order");
    for (int i = 0; i < 4; i++) {
        FILE *f = fopen(path, "w");
        fprintf(f, "# 1 servers\n%s", texts[i]);
        fclose(f);
        assert_fails(server_log_read(&log, path, 1, 2), E_FORMAT, "line 2", "--server-record");
        server_log_fini(&log);
    }
}

TESTS(unit_test(test_an_order_that_cannot_be_followed_is_refused), unit_test(test_a_file_that_is_no_record_is_refused))
