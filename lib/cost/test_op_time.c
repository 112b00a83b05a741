/* ranks: 1  device: cpu */
#include "lib/cost/op_time.h"
#include "lib/ops/cost.h"
#include "tests/test.h"

static struct cluster gpu(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    c.product_part = 0.79, c.stream_part = 0.672;                    /* the file's fitted values may change */
    return c;
}
static struct cost product_of(int64_t m, int64_t n, int64_t k, int64_t batch, double bytes) {
    struct cost c = {.bytes = bytes};
    cost_product(&c, m, n, k, batch);
    return c;
}

/* 108 tiles of 256 x 128 fill every processor once. One more row begins a second wave with one tile. */
TEST(test_tiles_and_waves) {
    struct cluster c = gpu();
    c.product_k0 = 0, c.product_part = 1;
    assert_close(product_efficiency(&c, &(struct matmul){108 * 256, 128, 64, 1}), 1, 1e-15);
    assert_close(product_efficiency(&c, &(struct matmul){256, 128, 64, 108}), 1, 1e-15);
    double more = product_efficiency(&c, &(struct matmul){108 * 256 + 1, 128, 64, 1});
    assert_true(more < 0.96 && more > 0.5);
    /* a matrix half as wide as the tile: the narrower tile is slower, but the matrix covers all of it */
    assert_close(product_efficiency(&c, &(struct matmul){108 * 128, 64, 64, 1}), 0.82, 1e-15);
    assert_true(product_efficiency(&c, &(struct matmul){256, 32, 64, 1}) < 0.02);
    c.product_k0 = 128;
    assert_close(product_efficiency(&c, &(struct matmul){256, 128, 128, 108}), 0.5, 1e-15);
}

TEST(test_a_row_takes_the_longer_of_its_two_times) {
    struct cluster c = gpu();
    const struct matmul p = {4096, 4096, 4096, 1};
    struct cost cost = product_of(p.m, p.n, p.k, p.batch, 3. * 4096 * 4096 * 2);
    struct seconds s = op_seconds(&c, "linear", BF16, &cost, ROW_FORWARD);
    assert_close(s.compute, 2. * 4096 * 4096 * 4096 / (312e12 * product_efficiency(&c, &p)), 1e-12);
    assert_close(s.memory, 3. * 4096 * 4096 * 2 / (2039e9 * 0.672), 1e-12);
    assert_close(s.total, s.compute + 5e-6, 1e-15);
    cost = (struct cost){.bytes = 1e9};
    s = op_seconds(&c, "linear", BF16, &cost, ROW_FORWARD);
    assert_close(s.total, s.memory + 5e-6, 0);
    assert_close(op_seconds(&c, "linear", BF16, &(struct cost){0}, ROW_FORWARD).total, 0, 0);
}

/* Blocked attention has its own fraction of the peak, and the blocks that it skips take no time. */
TEST(test_attention_by_tiles) {
    struct cluster c = gpu();
    struct cost cost = {.flops = 4e12, .left_out = 2e12};
    assert_close(op_seconds(&c, "linear", BF16, &cost, ROW_FORWARD).compute, 2e12 / (0.55 * 312e12), 1e-12);
    assert_close(op_seconds(&c, "linear", BF16, &cost, ROW_BACKWARD_INPUT).compute, 2e12 / (0.45 * 312e12), 1e-12);
}

/* The time of several products is the sum of their times. */
TEST(test_products_add_up) {
    struct cluster c = gpu();
    struct cost two = product_of(512, 512, 64, 8, 0), one = two, other = product_of(512, 64, 512, 8, 0);
    cost_product(&two, 512, 64, 512, 8);
    double sum = op_seconds(&c, "linear", BF16, &one, ROW_FORWARD).compute +
                 op_seconds(&c, "linear", BF16, &other, ROW_FORWARD).compute;
    assert_close(op_seconds(&c, "linear", BF16, &two, ROW_FORWARD).compute, sum, 1e-18);
}

/* Without tiles, a product of m = 64 rows reaches half of product_part if m0 is 64. Delays of n and k add up. */
TEST(test_short_sides_take_longer) {
    struct cluster c = gpu();
    c.tile_units = 0, c.product_part = 0.8, c.product_m0 = 64, c.product_n0 = 16, c.product_k0 = 0;
    assert_close(product_efficiency(&c, &(struct matmul){64, 1 << 30, 512, 1}), 0.4, 1e-7);
    assert_close(product_efficiency(&c, &(struct matmul){64, 8, 512, 1}), 0.8 / (1 + 1 + 2), 1e-15);
    c.product_k0 = 512;
    assert_close(product_efficiency(&c, &(struct matmul){64, 8, 512, 1}), 0.8 / (1 + 1 + 2 + 1), 1e-15);
}

/* An op that op-gbs names has its own speed. Other ops have the stream speed. */
TEST(test_an_op_may_have_its_own_speed) {
    struct cluster c = gpu();
    c.mover[0] = (struct mover){"gelu", 1e9}, c.n_movers = 1;
    const struct cost moved = {.bytes = 2e9};
    assert_close(op_seconds(&c, "gelu", FP32, &moved, ROW_FORWARD).memory, 2, 1e-15);
    assert_close(op_seconds(&c, "gelu2", FP32, &moved, ROW_FORWARD).memory, 2e9 / (2039e9 * 0.672), 1e-12);
}

TESTS(unit_test(test_tiles_and_waves), unit_test(test_a_row_takes_the_longer_of_its_two_times),
      unit_test(test_attention_by_tiles), unit_test(test_products_add_up),
      unit_test(test_short_sides_take_longer), unit_test(test_an_op_may_have_its_own_speed))
