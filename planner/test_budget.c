/* ranks: 1  device: cpu
 * Budgets equal published ones, and every worse input costs more. */
#include "tests/test.h"

#include "planner/budget.h"
#include "planner/failure.h"

#include <math.h>

static struct cluster gpus(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    return c;
}

/* Narayanan et al. 2021, 5.1: 8 N D by 1024 x 140 Tflop/s is 34 days for 300e9 tokens, and 84 days for a trillion
 * parameters, 450e9 tokens, 3072 GPUs at 163 Tflop/s. */
TEST(test_published_days) {
    struct cluster c = gpus();
    c.mtbf_rank_s = c.jitter_cv = 0;
    struct budget small = budget_make(&c, &(struct budget_of){8 * 175e9 * 300e9, 312e12, 140.0 / 312, 1024, 0, 0, 0});
    struct budget large = budget_make(&c, &(struct budget_of){8 * 1008e9 * 450e9, 312e12, 163.0 / 312, 3072, 0, 0, 0});
    assert_close(small.wall_s / 86400, 34, 0.5);
    assert_close(large.wall_s / 86400, 84, 0.5);
    assert_close(small.wall_s, small.ideal_s, 0);
    assert_close(small.rank_hours, small.wall_s / 3600 * 1024, 1e-6);
    assert_true(small.goodput == 1 && small.failures == 0 && small.failing_day == 0 && isnan(small.daly_s));
}

/* Llama 3, 16384 GPUs: 419 failures in 54 days. */
TEST(test_failures_of_llama_3) {
    struct cluster c = gpus();
    const struct budget_of of = {3.8e25, 989.5e12, 0.41, 16384, 5, 600, 0};
    struct budget b = budget_make(&c, &of);
    assert_close(b.failures / (b.wall_s / 86400), 419.0 / 54, 1e-3);
    assert_close(b.goodput, 0.9194, 1e-4);
    assert_close(b.wall_s, b.ideal_s * b.slowest / b.goodput, 1e-3);
    assert_close(b.slowest, failure_slowest(2048, c.jitter_cv, 0, 1), 1e-12);
    assert_true(b.interval_s == b.daly_s && b.daly_s > b.young_s * 0.9);
}

TEST(test_what_is_worse_costs_more) {
    struct cluster c = gpus(), worse = gpus();
    const struct budget_of of = {1e23, 312e12, 0.4, 1024, 30, 600, 0};
    struct budget_of more = of;
    struct budget b = budget_make(&c, &of);
    worse.mtbf_rank_s /= 10;
    assert_true(budget_make(&worse, &of).wall_s > b.wall_s);
    worse = c, worse.jitter_cv *= 2;
    assert_true(budget_make(&worse, &of).wall_s > b.wall_s);
    more.stall_s = 60;
    assert_true(budget_make(&c, &more).wall_s > b.wall_s);
    more = of, more.restart_s = 1200;
    assert_true(budget_make(&c, &more).wall_s > b.wall_s);
    more = of, more.interval_s = 4 * b.daly_s;
    assert_true(budget_make(&c, &more).wall_s > b.wall_s);
    more = of, more.ranks = 2048;
    struct budget twice = budget_make(&c, &more);
    assert_true(twice.wall_s < b.wall_s && twice.wall_s > b.wall_s / 2 && twice.rank_hours > b.rank_hours);
    c.watts = 400, c.price_per_hour = 2;
    b = budget_make(&c, &of);
    assert_close(b.price, 2 * b.rank_hours, 1e-6);
    assert_close(b.joules / (3600 * 400 * b.rank_hours), 1, 1e-12);
}

TESTS(unit_test(test_published_days), unit_test(test_failures_of_llama_3), unit_test(test_what_is_worse_costs_more))
