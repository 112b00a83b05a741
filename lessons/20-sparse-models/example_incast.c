/* ranks: 4
 *
 * Simulate and measure three exchanges, all to all, all to one and one to all, over links of 20 ms and 2.5 MB/s
 * (lesson 20).
 *
 * Rank r sends bytes[r][q] to rank q. All messages begin at once. The simulation has the model of
 * lib/comm/hops/hop_simulate.h: the sender's and the receiver's link each carry one message after the other, and the
 * message arrives a latency later. The measurement sends real messages over emulated links. */
#include "lib/base/clock.h"
#include "lib/comm/comm_request.h"
#include "lib/comm/hops/comm_links.h"
#include "lib/comm/hops/hop_simulate.h"
#include "lib/comm/mesh.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, SHARE = 75000, TIMES = 5 };
static const struct hop_links LINKS = {{20e-3, 20e-3}, {0.4e-6, 0.4e-6}, 0, false};

typedef int64_t table[RANKS][RANKS];

/* ---- three tables: SHARE bytes per sending rank, spread over the other ranks or all for one rank ---- */
static void balanced(table t) {
    for (int r = 0; r < RANKS; r++)
        for (int q = 0; q < RANKS; q++) t[r][q] = r == q ? 0 : SHARE / (RANKS - 1);
}
static void many_to_one(table t) {
    memset(t, 0, sizeof(table));
    for (int r = 1; r < RANKS; r++) t[r][0] = SHARE;
}
static void one_to_many(table t) {
    memset(t, 0, sizeof(table));
    for (int q = 1; q < RANKS; q++) t[0][q] = SHARE;
}

/* ---- simulated ---- */
struct message { double left; int to; double busy; };
static int by_time(const void *a, const void *b) {
    const struct message *x = a, *y = b;
    return (x->left > y->left) - (x->left < y->left);
}

/* Simulate the messages in the order in which rank r sends them: to the next rank first. */
static double simulate(table bytes) {
    struct message m[RANKS * RANKS];
    double in[RANKS] = {0}, last = 0;
    int n = 0;
    for (int r = 0; r < RANKS; r++) {
        double out = 0;
        for (int k = 1; k < RANKS; k++) {
            int q = (r + k) % RANKS;
            double busy = (double)bytes[r][q] * LINKS.s_per_byte[0];
            if (bytes[r][q]) m[n++] = (struct message){link_leave(&out, 0, busy), q, busy};
        }
    }
    qsort(m, (size_t)n, sizeof *m, by_time);
    for (int i = 0; i < n; i++) {
        double there = link_land(&in[m[i].to], m[i].left, m[i].busy) + LINKS.latency_s[0];
        if (there > last) last = there;
    }
    return last;
}

/* ---- measured ---- */
static char from[RANKS][SHARE], to[RANKS][SHARE];

static enum status exchange(table bytes) {
    struct comm_request request[2 * RANKS] = {{0}};
    int me = comm_world_rank(), n = 0;
    for (int k = 1; k < RANKS; k++) {
        int q = (me + RANKS - k) % RANKS;
        if (bytes[q][me]) TRY(comm_recv_start(group_world(), to[q], bytes[q][me], UINT8, q, 5, &request[n++]));
    }
    for (int k = 1; k < RANKS; k++) {
        int q = (me + k) % RANKS;
        if (bytes[me][q]) TRY(comm_send_start(group_world(), from[q], bytes[me][q], UINT8, q, 5, &request[n++]));
    }
    for (int i = 0; i < n; i++) TRY(comm_wait(&request[i]));
    return OK;
}

/* Seconds from the first rank's start to the last rank's end, in the fastest of TIMES exchanges. */
static enum status measure(table bytes, double *fastest) {
    *fastest = 1e9;
    for (int i = 0; i < TIMES; i++) {
        TRY(comm_barrier(group_world()));
        double times[2] = {-clock_s(), 0};
        TRY(exchange(bytes));
        times[1] = clock_s();
        TRY(comm_all_reduce(group_world(), times, 2, FP64, COMM_MAX));
        if (times[0] + times[1] < *fastest) *fastest = times[0] + times[1];
    }
    return OK;
}

static enum status compare(const char *name, void (*fill)(table)) {
    table bytes;
    double measured;
    fill(bytes);
    double simulated = simulate(bytes);
    TRY(measure(bytes, &measured));
    if (measured < 0.999 * simulated)
        return FAIL(E_INTERNAL, "%s: %g s, and no link is so fast; %g s are simulated", name, measured, simulated);
    if (comm_is_rank_0())
        printf("%-12s simulated %5.1f ms  measured %5.1f ms  %4.1f %% more\n", name, 1e3 * simulated, 1e3 * measured,
               100 * (measured / simulated - 1));
    return OK;
}

static enum status run(void) {
    if (comm_world_size() != RANKS) return FAIL(E_CONFIG, "%d ranks; it is for %d", comm_world_size(), RANKS);
    TRY(comm_emulate_links(&LINKS, 1));
    TRY(compare("all to all", balanced));
    TRY(compare("all to one", many_to_one));
    TRY(compare("one to all", one_to_many));
    return comm_emulate_links(NULL, 1);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), run());
    else status_report();
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
