/* ranks: 1  device: cpu
 *
 * One claim per test, on clusters with round numbers. Without latency only bytes take time; without bytes, only
 * latencies. */
#include "lib/cost/wire_time.h"
#include "tests/test.h"
#include <math.h>

#define GB 1e9
static const enum comm_op RINGS[] = {COMM_ALL_GATHER, COMM_REDUCE_SCATTER};

/* Nodes of 8 ranks: 200 GB/s inside, 20 GB/s between nodes. */
static struct cluster without_latency(void) {
    struct cluster c = {.n_levels = 2};
    c.level[0] = (struct level){"node", 8, 200 * GB, 0};
    c.level[1] = (struct level){"net", INT64_MAX, 20 * GB, 0};
    return c;
}
/* The same cluster, with 3 us inside and 8 us between nodes. */
static struct cluster with_latency(void) {
    struct cluster c = without_latency();
    c.level[0].alpha_s = 3e-6, c.level[1].alpha_s = 8e-6;
    return c;
}

TEST(test_wire_a_gather_sends_all_but_the_own_share) {
    struct cluster c = without_latency();
    for (int o = 0; o < 2; o++) {
        assert_close(wire_seconds(&c, RINGS[o], 4e9, 8, 1, 1), 7. / 8 * 4e9 / (200 * GB), 1e-12);
        assert_close(wire_seconds(&c, RINGS[o], 4e9, 2, 1, 1), 1. / 2 * 4e9 / (200 * GB), 1e-12);
        assert_close(wire_seconds(&c, RINGS[o], 4e9, 4, 8, 1), 3. / 4 * 4e9 / (20 * GB), 1e-12);
        assert_close(wire_seconds(&c, RINGS[o], 4e9, 1, 1, 1), 0, 0);
    }
}

TEST(test_wire_every_rank_is_a_step) {
    struct cluster c = with_latency();
    for (int o = 0; o < 2; o++) {
        assert_close(wire_seconds(&c, RINGS[o], 0, 8, 1, 1), 7 * 3e-6, 1e-15);
        assert_close(wire_seconds(&c, RINGS[o], 0, 8, 1, 5), 5 * 7 * 3e-6, 1e-15);
        assert_close(wire_seconds(&c, RINGS[o], 0, 64, 8, 1), 63 * 8e-6, 1e-15);
    }
    c.call_s = 1e-5;
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, 0, 8, 1, 5), 5 * (7 * 3e-6 + 1e-5), 1e-15);
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, 0, 1, 1, 5), 0, 0);
}

TEST(test_wire_an_all_reduce_is_two) {
    struct cluster c = with_latency();
    for (int64_t n = 2; n <= 8; n *= 2) {
        double ring = wire_seconds(&c, COMM_ALL_GATHER, 4e9, n, 1, 1);
        double all = wire_seconds(&c, COMM_ALL_REDUCE, 4e9, n, 1, 1);
        assert_close(all, 2 * ring, 1e-12);
        assert_close(all, 2 * ((double)(n - 1) / (double)n * 4e9 / (200 * GB) + (double)(n - 1) * 3e-6), 1e-12);
    }
}

/* 1024 ranks, each on its own node, and 16 KB. */
TEST(test_wire_short_all_reduces_go_by_tree) {
    struct cluster c = with_latency();
    double S = 16e3, ring = 1023. / 1024 * S / (20 * GB) + 1023 * 8e-6, tree = S / (0.9 * 20 * GB) + 2 * 10 * 8e-6;
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, S, 1024, 8, 1), 2 * tree, 1e-12);
    for (int o = 0; o < 2; o++) assert_close(wire_seconds(&c, RINGS[o], S, 1024, 8, 1), ring, 1e-12);
    /* many bytes, few ranks: the ring */
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, 4e9, 4, 8, 1), 2 * (3. / 4 * 4e9 / (20 * GB) + 3 * 8e-6), 1e-12);
}

TEST(test_wire_stride_says_who_shares_a_node) {
    static const struct { int64_t n, stride, inside; int level; } cases[] = {
        {8, 1, 8, 0},  {8, 8, 1, 1},  {8, 2, 4, 1}, {8, 4, 2, 1}, {2, 4, 2, 0}, {16, 1, 8, 1},
        {12, 1, 6, 1}, {12, 2, 4, 1}, {9, 2, 3, 1}, {6, 3, 2, 1}, {7, 2, 1, 1}, {8, 64, 1, 1}};
    struct cluster c = without_latency();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double i = (double)cases[k].inside, N = (double)cases[k].n / i, S = 4e9;
        double wanted = (i - 1) / i * S / (200 * GB) + (N - 1) / N * S / i / (20 * GB);
        double t = wire_seconds(&c, COMM_ALL_GATHER, S, cases[k].n, cases[k].stride, 1);
        if (!(fabs(t - wanted) < 1e-12))
            fail_msg("a gather of %d ranks, %d apart, in nodes of 8: %d of them share a node, which takes %g s and not "
                     "%g",
                     (int)cases[k].n, (int)cases[k].stride, (int)cases[k].inside, wanted, t);
        assert_int_equal(wire_level(&c, cases[k].n, cases[k].stride), cases[k].level);
    }
}

/* Racks of 4 nodes, and 64 neighbors: 8 ranks in a node with S, 4 nodes in a rack with S/8, 2 racks with S/32. */
TEST(test_wire_only_the_share_travels_beyond) {
    struct cluster c = without_latency();
    const double S = 3.2e9;
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, S, 32, 1, 1), 7. / 8 * S / (200 * GB) + 3. / 4 * S / 8 / (20 * GB),
                 1e-12);
    c.n_levels = 3, c.level[2] = c.level[1];
    c.level[1] = (struct level){"rack", 32, 50 * GB, 0};
    double node = 7. / 8 * S / (200 * GB), rack = 3. / 4 * S / 8 / (50 * GB), net = 1. / 2 * S / 32 / (20 * GB);
    assert_close(wire_seconds(&c, COMM_REDUCE_SCATTER, S, 64, 1, 1), node + rack + net, 1e-12);
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, S, 64, 1, 1), 2 * (node + rack + net), 1e-12);
}

TEST(test_wire_only_the_outermost_level_has_steps) {
    struct cluster c = with_latency();
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, 0, 32, 1, 1), 31 * 8e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_REDUCE_SCATTER, 0, 16, 2, 3), 3 * 15 * 8e-6, 1e-15);
    /* 8 ranks inside, 4 nodes; the better of tree and ring at each level, twice: 2 (6 or 7) 3 us, 2 (4 or 3) 8 us */
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, 0, 32, 1, 1), 2 * (6 * 3e-6 + 3 * 8e-6), 1e-15);
}

TEST(test_wire_others_take_their_slowest_link) {
    struct cluster c = with_latency();
    const double S = 4e9, in = 200 * GB, out = 20 * GB;
    assert_close(wire_seconds(&c, COMM_SEND, S, 2, 4, 1), S / in + 3e-6, 1e-12);
    assert_close(wire_seconds(&c, COMM_SEND, S, 4, 8, 2), S / out + 2 * 8e-6, 1e-12);
    assert_close(wire_seconds(&c, COMM_RECV, S, 4, 8, 1), 0, 0);
    assert_close(wire_seconds(&c, COMM_ALL_TO_ALL, S, 8, 1, 1), 7. / 8 * S / in + 7 * 3e-6, 1e-12);
    assert_close(wire_seconds(&c, COMM_ALL_TO_ALL, S, 16, 1, 1), 8. / 16 * S / out + 15 * 8e-6, 1e-12);
    assert_close(wire_seconds(&c, COMM_BROADCAST, S, 32, 1, 1), S / in + 3 * 3e-6 + S / 8 / out + 2 * 8e-6, 1e-12);
    assert_close(wire_seconds(&c, COMM_BARRIER, 0, 32, 1, 1), 2 * 3 * 3e-6 + 2 * 2 * 8e-6, 1e-15);
}

TEST(test_wire_laws) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_ALL_TO_ALL, COMM_BROADCAST, COMM_SEND};
    for (int o = 0; o < 5; o++)
        for (int64_t n = 2; n <= 256; n *= 2)
            for (int64_t stride = 1; stride <= 16; stride *= 2) {
                struct cluster c = with_latency();
                double t = wire_seconds(&c, OPS[o], 1e6, n, stride, 1), most = t * (1 + 1e-12);
                assert_true(t > 0 && wire_seconds(&c, OPS[o], 2e6, n, stride, 1) > t);
                assert_true(wire_seconds(&c, OPS[o], 1e6, n, 2 * stride, 1) >= t);
                for (int l = 0; l < 2; l++) {
                    c = with_latency(), c.level[l].bytes_per_s *= 2;
                    assert_true(wire_seconds(&c, OPS[o], 1e6, n, stride, 1) <= most);
                    c = with_latency(), c.level[l].alpha_s /= 2;
                    assert_true(wire_seconds(&c, OPS[o], 1e6, n, stride, 1) <= most);
                }
                c = with_latency(), c.level[0].ranks = 16;
                assert_true(wire_seconds(&c, OPS[o], 1e6, n, stride, 1) <= most);
            }
}

TESTS(unit_test(test_wire_a_gather_sends_all_but_the_own_share), unit_test(test_wire_every_rank_is_a_step),
      unit_test(test_wire_an_all_reduce_is_two), unit_test(test_wire_short_all_reduces_go_by_tree),
      unit_test(test_wire_stride_says_who_shares_a_node), unit_test(test_wire_only_the_share_travels_beyond),
      unit_test(test_wire_only_the_outermost_level_has_steps), unit_test(test_wire_others_take_their_slowest_link),
      unit_test(test_wire_laws))
