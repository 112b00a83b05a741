/* ranks: 1  device: cpu */
#include "lib/cost/op_time.h"
#include "lib/ops/cost.h"
#include "tests/test.h"

static struct cluster gpu(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    c.product_part = 0.79, c.stream_part = 0.672;                    /* what is fitted may change */
    return c;
}
static struct cost product_of(int64_t m, int64_t n, int64_t k, int64_t batch, double bytes) {
    struct cost c = {.bytes = bytes};
    cost_product(&c, m, n, k, batch);
    return c;
}

/* 108 tiles of 256 x 128 fill every processor once; one row more begins a second wave of a few. */
static void test_tiles_and_waves(void **state) {
    (void)state;
    struct cluster c = gpu();
    c.product_k0 = 0, c.product_part = 1;
    assert_close(product_efficiency(&c, &(struct matmul){108 * 256, 128, 64, 1}), 1, 1e-15);
    assert_close(product_efficiency(&c, &(struct matmul){256, 128, 64, 108}), 1, 1e-15);
    double more = product_efficiency(&c, &(struct matmul){108 * 256 + 1, 128, 64, 1});
    assert_true(more < 0.96 && more > 0.5);
    /* half a tile wide: the narrower tile is slower, and all of it is matrix */
    assert_close(product_efficiency(&c, &(struct matmul){108 * 128, 64, 64, 1}), 0.82, 1e-15);
    assert_true(product_efficiency(&c, &(struct matmul){256, 32, 64, 1}) < 0.02);
    c.product_k0 = 128;
    assert_close(product_efficiency(&c, &(struct matmul){256, 128, 128, 108}), 0.5, 1e-15);
}

static void test_a_row_takes_the_longer_of_its_two_times(void **state) {
    (void)state;
    struct cluster c = gpu();
    const struct matmul p = {4096, 4096, 4096, 1};
    struct cost cost = product_of(p.m, p.n, p.k, p.batch, 3. * 4096 * 4096 * 2);
    struct seconds s = op_seconds(&c, BF16, &cost, ROW_FORWARD);
    assert_close(s.compute, 2. * 4096 * 4096 * 4096 / (312e12 * product_efficiency(&c, &p)), 1e-12);
    assert_close(s.memory, 3. * 4096 * 4096 * 2 / (2039e9 * 0.672), 1e-12);
    assert_close(s.total, s.compute + 5e-6, 1e-15);
    cost = (struct cost){.bytes = 1e9};
    s = op_seconds(&c, BF16, &cost, ROW_FORWARD);
    assert_close(s.total, s.memory + 5e-6, 0);
    assert_close(op_seconds(&c, BF16, &(struct cost){0}, ROW_FORWARD).total, 0, 0);
}

/* Attention by tiles has a part of the peak of its own, and what it leaves out takes no time. */
static void test_attention_by_tiles(void **state) {
    (void)state;
    struct cluster c = gpu();
    struct cost cost = {.flops = 4e12, .left_out = 2e12};
    assert_close(op_seconds(&c, BF16, &cost, ROW_FORWARD).compute, 2e12 / (0.55 * 312e12), 1e-12);
    assert_close(op_seconds(&c, BF16, &cost, ROW_BACKWARD_INPUT).compute, 2e12 / (0.45 * 312e12), 1e-12);
}

/* A product of several is the sum; a CPU's are by their smallest side. */
static void test_products_add_up(void **state) {
    (void)state;
    struct cluster c = gpu();
    struct cost two = product_of(512, 512, 64, 8, 0), one = two, other = product_of(512, 64, 512, 8, 0);
    cost_product(&two, 512, 64, 512, 8);
    double sum = op_seconds(&c, BF16, &one, ROW_FORWARD).compute + op_seconds(&c, BF16, &other, ROW_FORWARD).compute;
    assert_close(op_seconds(&c, BF16, &two, ROW_FORWARD).compute, sum, 1e-18);
    c.tile_units = 0, c.product_k0 = 0, c.product_part = 1;
    c.product_curve = (struct curve){2, {16, 64}, {0.2, 0.8}};
    assert_close(product_efficiency(&c, &(struct matmul){1024, 32, 512, 1}), 0.4, 1e-15);
}

TESTS(unit_test(test_tiles_and_waves), unit_test(test_a_row_takes_the_longer_of_its_two_times),
      unit_test(test_attention_by_tiles), unit_test(test_products_add_up))
