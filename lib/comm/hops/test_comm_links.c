/* ranks: 2 4  device: cpu */
/* Emulated links: sums are correct, and no operation is faster than in the simulation. tests/long/links.sh compares the
 * times, because their difference depends on the machine. */
#include "lib/comm/hops/comm_links.h"
#include "lib/comm/hops/hop_simulate.h"
#include "tests/test.h"

#include "lib/base/clock.h"
#include "lib/comm/comm_backend.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 6000, ELEMENT = 8 };

TEST(test_links_are_read) {
    struct hop_links links;
    assert_ok(comm_link_parse("link-inside", "20us,10GB/s", 0, &links));
    assert_close(links.latency_s[0], 20e-6, 1e-18);
    assert_close(links.s_per_byte[0], 1e-10, 1e-22);
    assert_ok(comm_link_parse("link-between", "2ms,50MB/s,node", 1, &links));
    assert_true(links.nic_per_node);
    assert_ok(comm_link_parse("link-between", "0s,1kB/s,rank", 1, &links));
    assert_false(links.nic_per_node);
    assert_close(links.s_per_byte[1], 1e-3, 1e-15);
    static const char *const bad[] = {"", "2ms", "2ms,", "2,50MB/s", "2ms,50Mb/s", "-2ms,50MB/s", "2ms,0MB/s",
                                      "2ms,50MB/s,host"};
    for (int i = 0; i < 8; i++)
        assert_fails(comm_link_parse("link-between", bad[i], 1, &links), E_CONFIG, "link-between=", "2ms,50MB/s");
    assert_fails(comm_link_parse("link-inside", "2ms,50MB/s,node", 0, &links), E_CONFIG, "link-inside=");
}

/* The seconds from the start of the first rank to the end of the last. */
static double seconds_of_all_reduce(bool *right) {
    double *x = malloc(ELEMENTS * sizeof *x), times[2];
    for (int i = 0; i < ELEMENTS; i++) x[i] = comm_world_rank() + i;
    *right &= comm_barrier(group_world()) == OK;
    times[0] = -clock_s();
    *right &= comm_all_reduce(group_world(), x, ELEMENTS, FP64, COMM_SUM) == OK;
    times[1] = clock_s();
    int n = comm_world_size();
    for (int i = 0; i < ELEMENTS; i++) *right &= x[i] == n * i + n * (n - 1) / 2;
    free(x);
    return agree_max(times[0]) + agree_max(times[1]);
}

static void emulate(const struct comm_settings *settings, const struct hop_links *links, bool *right) {
    comm_configure(settings);
    *right &= comm_emulate_links(links, 1) == OK;
}

/* Add the seconds for which a table's messages to other nodes occupy each node's NIC. */
static void add_nic_seconds(void *nic_s, int rank, const struct hop_row *hop, double from_s, double to_s) {
    const int *node = group_world()->node;
    if (hop->kind == HOP_SEND && node[rank] != node[hop->peer]) ((double *)nic_s)[node[rank]] += to_s - from_s;
}

/* The least seconds that a table takes in any order of messages. A NIC that ranks share serves messages in the order in
 * which they come. The simulation has one order, and another order can be faster (Graham 1969). No order is faster
 * than links that are not shared, or than the messages of the busiest NIC. */
static double least_seconds(const struct comm_algorithm *algorithm, const struct hop_links *links, bool *right) {
    const struct hop_shape shape = {COMM_ALL_REDUCE, comm_world_size(), 0, ELEMENTS, (256 << 10) / 8, 8,
                                    group_world()->node};
    struct hop_links apart = *links;
    apart.nic_per_node = false;
    double seconds, nic_s[4] = {0};
    *right &= hop_simulate(algorithm, &shape, ELEMENT, &apart, add_nic_seconds, nic_s, &seconds) == OK;
    if (!links->nic_per_node) return seconds;
    for (int node = 0; node < 4; node++) seconds = fmax(seconds, nic_s[node] + (nic_s[node] > 0) * links->latency_s[1]);
    return seconds;
}

TEST(test_nothing_is_faster_than_its_links) {
    const struct comm_settings before = *comm_settings_in_force();
    struct hop_links links = {{1e-3, 4e-3}, {1e-8, 1e-7}, 0, false};
    bool right = true;
    for (int a = 0; comm_algorithms[a]; a++)
        for (int shared = 0; shared < 2; shared++) {
            struct comm_settings settings = before;
            links.nic_per_node = shared;
            settings.nodes.ranks_per_node = 2;
            settings.rule[0].algorithm = comm_algorithms[a];
            emulate(&settings, &links, &right);
            double least = least_seconds(comm_algorithms[a], &links, &right), measured = seconds_of_all_reduce(&right);
            if (measured < 0.999 * least)
                print_error("%s, shared %d: %g s of at least %g\n", comm_algorithms[a]->name, shared, measured, least);
            right &= measured >= 0.999 * least;
            emulate(&before, NULL, &right);
        }
    assert_true(agree_all(right));
}

/* A message takes its latency and its bytes; a second one to the same rank waits for the first. */
TEST(test_messages_are_slow_too) {
    const struct hop_links links = {{3e-3, 0}, {1e-6, 0}, 0, false};   /* 1000 doubles: 8 ms */
    const struct comm_settings before = *comm_settings_in_force();
    int n = comm_world_size(), rank = comm_world_rank();
    double x[2][1000] = {{rank}, {rank + 10}}, in[2][1000];
    struct comm_request request[4];
    bool ok = true;
    emulate(&before, &links, &ok);
    ok &= comm_barrier(group_world()) == OK;
    double from = clock_s();
    for (int i = 0; i < 2; i++) {
        ok &= comm_recv_start(group_world(), in[i], 1000, FP64, (rank + n - 1) % n, 5 + i, &request[i]) == OK;
        ok &= comm_send_start(group_world(), x[i], 1000, FP64, (rank + 1) % n, 5 + i, &request[2 + i]) == OK;
    }
    for (int i = 0; i < 4; i++) ok &= comm_wait(&request[i]) == OK;
    ok &= clock_s() - from >= 3e-3 + 8e-3;                  /* the peer's first message may have left before `from` */
    for (int i = 0; i < 2; i++) ok &= in[i][0] == (rank + n - 1) % n + 10 * i;
    emulate(&before, NULL, &ok);
    assert_true(agree_all(ok));
}

/* One rank's link is five times as slow. Every rank of the ring waits for its messages, but the choice of algorithms
 * still uses the given links. */
TEST(test_one_slow_link_slows_a_ring) {
    const struct hop_links links = {{0, 0}, {1e-7, 0}, 0, false};
    const struct comm_settings before = *comm_settings_in_force();
    const int n = comm_world_size();
    struct comm_settings settings = before;
    bool right = true;
    settings.rule[0].algorithm = comm_algorithm_find("ring");
    comm_configure(&settings);
    right &= comm_emulate_links(&links, comm_world_rank() == 1 ? 5 : 1) == OK;
    right &= comm_links_emulated()->s_per_byte[0] == 1e-7;
    double least = 2. * (n - 1) / n * ELEMENTS * ELEMENT * 5e-7;
    right &= seconds_of_all_reduce(&right) >= 0.95 * least;          /* parts of whole lines are not all equal */
    emulate(&before, NULL, &right);
    assert_true(agree_all(right));
}

TESTS(unit_test(test_links_are_read), unit_test(test_one_slow_link_slows_a_ring),
      unit_test(test_nothing_is_faster_than_its_links), unit_test(test_messages_are_slow_too))
