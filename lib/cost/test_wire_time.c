/* ranks: 1  device: cpu
 *
 * The tests write the formulas out by hand, for a cluster with round figures. */
#include "lib/cost/wire_time.h"
#include "tests/test.h"
#include <math.h>

/* Nodes of 8: 100 GB/s and 1 us inside, 10 GB/s and 5 us beyond. */
static struct cluster two_levels(void) {
    struct cluster c = {.n_levels = 2};
    c.level[0] = (struct level){"node", 8, 100e9, 1e-6, {0}};
    c.level[1] = (struct level){"net", INT64_MAX, 10e9, 5e-6, {0}};
    return c;
}
static struct cluster three_levels(void) {
    struct cluster c = two_levels();
    c.level[2] = c.level[1];
    c.level[1] = (struct level){"rack", 32, 50e9, 2e-6, {0}};
    c.n_levels = 3;
    return c;
}

TEST(test_inside_a_node) {
    struct cluster c = two_levels();
    const double S = 8e8;
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, S, 8, 1, 1), 2 * (7. / 8 * S / 100e9 + 7e-6), 1e-15);
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, S, 8, 1, 1), 7. / 8 * S / 100e9 + 7e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_REDUCE_SCATTER, S, 4, 2, 1), 3. / 4 * S / 100e9 + 3e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_ALL_TO_ALL, S, 8, 1, 1), 7. / 8 * S / 100e9 + 7e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_SEND, S, 2, 1, 1), S / 100e9 + 1e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, S, 1, 1, 1), 0, 0);
}

/* Stride 2: four ranks in each of four nodes. Each of the four exchanges a quarter with the other nodes. */
TEST(test_across_nodes) {
    struct cluster c = two_levels();
    const double S = 8e8, inside = 3. / 4 * S / 100e9, part = S / 4;
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, S, 16, 2, 1), inside + 3. / 4 * part / 10e9 + 15 * 5e-6, 1e-15);
    double ring = 2 * (3. / 4 * part / 10e9 + 3 * 5e-6), tree = 2 * (part / 9e9 + 2 * 2 * 5e-6);
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, S, 16, 2, 1), 2 * (inside + 3e-6) + fmin(ring, tree), 1e-15);
    /* few bytes, many nodes: the tree is faster */
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, 8e3, 512, 8, 1), 2 * (8e3 / 9e9 + 2 * 9 * 5e-6), 1e-15);
    /* gather and scatter have no tree: every rank is a step of the ring */
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, 8e3, 512, 8, 1), 511. / 512 * 8e3 / 10e9 + 511 * 5e-6, 1e-15);
    /* stride 8: each rank is in its own node */
    assert_close(wire_seconds(&c, COMM_REDUCE_SCATTER, S, 4, 8, 1), 3. / 4 * S / 10e9 + 3 * 5e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_SEND, S, 4, 4, 1), S / 10e9 + 5e-6, 1e-15);
    /* 12 of 15 others are beyond the node */
    assert_close(wire_seconds(&c, COMM_ALL_TO_ALL, S, 16, 2, 1), 12. / 16 * S / 10e9 + 15 * 5e-6, 1e-15);
    /* each piece pays the latency between nodes */
    assert_close(wire_seconds(&c, COMM_REDUCE_SCATTER, S, 4, 8, 6), 3. / 4 * S / 10e9 + 18 * 5e-6, 1e-15);
}

/* Each link of one ring carries all of it, the slowest one, too; inside a node nothing changes but the tree. */
TEST(test_one_ring) {
    struct cluster c = two_levels();
    const double S = 8e8, ring = 15. / 16 * S / 10e9 + 15 * 5e-6;
    c.stack.rings = true;
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, S, 16, 1, 1), ring, 1e-15);
    assert_close(wire_seconds(&c, COMM_REDUCE_SCATTER, S, 16, 2, 3), ring + 2 * 15 * 5e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, S, 16, 1, 1), 2 * ring, 1e-15);
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, S, 8, 1, 1), 7. / 8 * S / 100e9 + 7e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_SEND, S, 2, 8, 1), S / 10e9 + 5e-6, 1e-15);
}

TEST(test_three_levels) {
    struct cluster c = three_levels();
    const double S = 8e8;
    assert_int_equal(wire_level(&c, 8, 1), 0);
    assert_int_equal(wire_level(&c, 4, 8), 1);
    assert_int_equal(wire_level(&c, 64, 1), 2);
    assert_int_equal(wire_level(&c, 2, 32), 2);
    double node = 7. / 8 * S / 100e9, rack = 3. / 4 * S / 8 / 50e9;
    double net = 1. / 2 * S / 32 / 10e9 + 63 * 5e-6;
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, S, 64, 1, 1), node + rack + net, 1e-15);
}

/* Laws that hold for all figures. */
/* Rank k of 4 nodes is on rail k. A message to another node's rank k stays on it; one to rank k + 4 leaves it. */
TEST(test_rails) {
    struct cluster c = three_levels();
    c.rails = true;
    assert_close(wire_seconds(&c, COMM_SEND, 8e8, 2, 8, 1), 8e8 / 50e9 + 2e-6, 1e-15);
    assert_close(wire_seconds(&c, COMM_SEND, 8e8, 2, 12, 1), 8e8 / 10e9 + 5e-6, 1e-15);
    assert_int_equal(wire_level(&c, 4, 8), 1);
    assert_int_equal(wire_level(&c, 8, 4), 1);                       /* two in each node, then a rail */
    assert_int_equal(wire_level(&c, 3, 4), 2);
    assert_close(wire_seconds(&c, COMM_ALL_REDUCE, 8e8, 32, 1, 1),
                 wire_seconds(&(struct cluster){.n_levels = 3, .level = {c.level[0], c.level[1], c.level[2]}},
                              COMM_ALL_REDUCE, 8e8, 32, 1, 1), 0);
}

TEST(test_laws) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_ALL_TO_ALL,
                                       COMM_BROADCAST, COMM_SEND};
    for (int o = 0; o < 6; o++)
        for (int64_t n = 2; n <= 512; n *= 2)
            for (int i = 0; i < 12; i++) {
                struct cluster c = two_levels();
                int64_t stride = 1 << 2 * (i % 4);
                double bytes = i < 4 ? 1e4 : i < 8 ? 1e6 : 1e8, t = wire_seconds(&c, OPS[o], bytes, n, stride, 1);
                assert_true(wire_seconds(&c, OPS[o], 2 * bytes, n, stride, 1) > t);
                assert_true(wire_seconds(&c, OPS[o], bytes, n, stride * 4, 1) >= t);
                for (int l = 0; l < 2; l++) {
                    c = two_levels(), c.level[l].bytes_per_s *= 2;
                    assert_true(wire_seconds(&c, OPS[o], bytes, n, stride, 1) <= t * (1 + 1e-12));
                    c = two_levels(), c.level[l].alpha_s /= 2;
                    assert_true(wire_seconds(&c, OPS[o], bytes, n, stride, 1) <= t * (1 + 1e-12));
                }
                c = two_levels(), c.level[0].ranks = 16;         /* two nodes of 8 are never faster than one of 16 */
                assert_true(wire_seconds(&c, OPS[o], bytes, n, stride, 1) <= t * (1 + 1e-12));
            }
}

/* A level's speed by size holds for its share of the bytes. */
TEST(test_speed_depends_on_the_size) {
    struct cluster c = {.n_levels = 1, .level = {{"node", INT64_MAX, 1e9, 0, {2, {1000, 4000}, {0.25, 1}}}}};
    assert_close(wire_seconds(&c, COMM_ALL_GATHER, 2000, 2, 1, 1), 0.5 * 2000 / 0.5e9, 1e-18);
    assert_close(wire_seconds(&c, COMM_SEND, 1000, 2, 1, 1), 1000 / 0.25e9, 1e-18);
    assert_close(wire_seconds(&c, COMM_ALL_TO_ALL, 4000, 4, 1, 1), 0.75 * 4000 / 1e9, 1e-18);
}

TESTS(unit_test(test_inside_a_node), unit_test(test_across_nodes), unit_test(test_one_ring),
      unit_test(test_three_levels), unit_test(test_rails), unit_test(test_laws),
      unit_test(test_speed_depends_on_the_size))
