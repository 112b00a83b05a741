/* ranks: 1  device: cpu
 * Budgets equal published ones, and every worse input costs more. */
#include "planner/budget.h"
#include "planner/failure.h"
#include "planner/walls.h"
#include "tests/test.h"
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

/* ---- walls ---- */
/* A step of 3 s, of which 2.8 s are products, at a reach of 0.7. */
static struct wall_of computing(void) {
    return (struct wall_of){.fits = true, .step_s = 3, .mfu = 0.7 * 2.8 / 3, .phase_s = {[PRICE_PRODUCTS] = 2.8},
                            .slowest = 1, .goodput = 1, .reach = 0.7};
}

TEST(test_reach_is_what_products_reach) {
    struct wall_of x = computing();
    assert_close(wall_reach(x.mfu, x.step_s, x.phase_s[PRICE_PRODUCTS]), 0.7, 1e-12);
    assert_true(wall_reach(0.5, 3, 0) == 0);
}

/* Every exchange counts, alone and with the others; nothing else does. More than a third, not a third. */
TEST(test_a_third_of_exchanges_is_the_wall) {
    for (int i = 0; i < N_PRICE_PHASES; i++) {
        struct wall_of x = computing();
        bool exchange = i == PRICE_TP || i == PRICE_CP || i == PRICE_EP || i == PRICE_PP || i == PRICE_DP ||
                        i == PRICE_GATHER;
        x.mfu = 0.3;
        for (int k = 0; k < N_PRICE_PHASES; k++) x.phase_s[k] = 0;
        x.phase_s[i] = 1 * (1 - 1e-12);
        assert_int_equal(wall_of(&x), WALL_EFFICIENCY);
        x.phase_s[i] = 1 + 1e-12;
        assert_int_equal(wall_of(&x), exchange ? WALL_COMMUNICATION : WALL_EFFICIENCY);
    }
    struct wall_of x = computing();
    x.mfu = 0.3, x.phase_s[PRICE_TP] = x.phase_s[PRICE_PP] = x.phase_s[PRICE_DP] = 0.34;
    assert_close(wall_exchanges(&x), 0.34, 1e-12);
    assert_int_equal(wall_of(&x), WALL_COMMUNICATION);
}

TEST(test_nine_tenths_of_the_reach_is_the_wall) {
    struct wall_of x = computing();
    assert_int_equal(wall_of(&x), WALL_COMPUTE);
    x.mfu = 0.9 * x.reach * (1 - 1e-12);
    assert_int_equal(wall_of(&x), WALL_EFFICIENCY);
    x.mfu = 0.9 * x.reach * (1 + 1e-12);
    assert_int_equal(wall_of(&x), WALL_COMPUTE);
    x.reach = 0.79;                                                  /* wider products would reach more */
    assert_int_equal(wall_of(&x), WALL_EFFICIENCY);
    x.goodput = 0.5, x.slowest = 2, x.reach = 0.7;                   /* failures do not change the step's mfu */
    assert_int_equal(wall_of(&x), WALL_COMPUTE);
}

/* A layout that does not fit meets the memory wall, whatever its other numbers are. */
TEST(test_memory_comes_first) {
    struct wall_of x = computing();
    x.fits = false;
    assert_int_equal(wall_of(&x), WALL_MEMORY);
    assert_int_equal(wall_of(&(struct wall_of){.fits = false}), WALL_MEMORY);
}

/* Each loss is named if it takes 0.2 of the time and another one takes 0.1. */
TEST(test_the_largest_loss_is_named) {
    for (int i = 0; i < N_LOSSES; i++) {
        struct wall_of x = computing();
        double part, seconds = 0.2 * x.step_s;
        x.mfu = 0.5, x.phase_s[PRICE_PRODUCTS] = x.step_s / 2, x.reach = 1;
        x.phase_s[i == LOSS_REPLAY ? PRICE_BUBBLE : PRICE_REPLAY] = 0.1 * x.step_s;
        switch (i) {
        case LOSS_BUBBLE: x.phase_s[PRICE_BUBBLE] = seconds; break;
        case LOSS_NARROW: x.mfu = 0.3; break;                        /* half the time at 0.6 of the reach */
        case LOSS_MOVING: x.phase_s[PRICE_MEMORY] = seconds; break;
        case LOSS_REPLAY: x.phase_s[PRICE_REPLAY] = seconds; break;
        case LOSS_UPDATE: x.phase_s[PRICE_OPTIM] = seconds; break;
        case LOSS_SLOWEST: x.slowest = 1.25; break;
        default: x.goodput = 0.8;
        }
        assert_int_equal(wall_loss(&x, &part), i);
        assert_close(part, 0.2, 1e-12);
        assert_string_not_equal(loss_name((enum loss)i), "?");
    }
}

TESTS(unit_test(test_published_days), unit_test(test_failures_of_llama_3), unit_test(test_what_is_worse_costs_more),
      unit_test(test_reach_is_what_products_reach), unit_test(test_a_third_of_exchanges_is_the_wall),
      unit_test(test_nine_tenths_of_the_reach_is_the_wall), unit_test(test_memory_comes_first),
      unit_test(test_the_largest_loss_is_named))
