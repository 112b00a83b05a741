/* ranks: 1  device: cpu
 *
 * The formulas compared with a simulated job: stretches of work and saves, failures drawn from the exponential
 * distribution. With k failures a mean has a relative error of about 1/sqrt(k). Here 200000 stretches have at least
 * 2000 failures, and bounds are several times 1/sqrt(k) of the part that failures waste. The draws are the same in
 * every run. */
#include "lessons/12-checkpoints-and-faults/interval/interval.h"

#include "lib/base/rng.h"
#include "tests/test.h"

/* The wasted fraction of time in a job of n saved stretches of tau seconds. */
static double play(struct faults f, double tau, int n) {
    double all = 0, need = tau + f.save;
    uint64_t draw = 0;
    for (int done = 0; done < n;) {
        /* the process has no memory, so a new draw for each stretch is correct */
        double until = -f.mtbf * log1p(-rng_uniform(12, 1, draw++));
        all += until < need ? until + f.restart : need;
        done += until >= need;
    }
    return 1 - n * tau / all;
}

TEST(test_interval_mtbf_shrinks_with_the_nodes) {
    double mtbf = NAN;
    assert_ok(interval_mtbf_of_job(1e7, 1, &mtbf));
    assert_close(mtbf, 1e7, 0);
    assert_ok(interval_mtbf_of_job(4e7, 2048, &mtbf));
    assert_close(mtbf, 19531.25, 1e-9);
}

/* If failures are rare, the estimate is right to first order; the next terms are about ((tau + save)/mtbf)^2. */
TEST(test_interval_wasted_is_right_to_first_order) {
    static const struct { struct faults f; double tau; } cases[] = {{{1, 0, 1e4}, 100}, {{2, 30, 1e4}, 150},
                                                                    {{0.5, 100, 5e4}, 400}, {{5, 5, 2e4}, 300}};
    for (int i = 0; i < 4; i++) {
        double fraction = NAN, x = (cases[i].tau + cases[i].f.save) / cases[i].f.mtbf,
               played = play(cases[i].f, cases[i].tau, 200000);
        assert_ok(interval_wasted(cases[i].f, cases[i].tau, &fraction));
        double of_failures = (cases[i].tau / 2 + cases[i].f.restart) / cases[i].f.mtbf;
        assert_close(fraction, played, 0.1 * of_failures + 2 * x * x + 0.02 * fraction);
    }
}

TEST(test_interval_best_is_the_cheapest) {
    static const struct faults cases[] = {{0.5, 0, 3600}, {10, 120, 86400}, {0.02, 3, 17}, {600, 1800, 11000}};
    for (int i = 0; i < 4; i++) {
        double tau = NAN, at, before, after;
        assert_ok(interval_best(cases[i], &tau));
        assert_close(tau, sqrt(2 * cases[i].save * cases[i].mtbf), 1e-9 * tau);
        assert_ok(interval_wasted(cases[i], tau, &at));
        assert_ok(interval_wasted(cases[i], 0.98 * tau, &before));
        assert_ok(interval_wasted(cases[i], 1.02 * tau, &after));
        assert_true(at < before && at < after);
    }
}

/* In the simulation neither half nor twice the interval wastes less. */
TEST(test_interval_best_wins_when_played) {
    static const struct faults cases[] = {{1, 5, 2000}, {4, 20, 5000}};
    for (int i = 0; i < 2; i++) {
        double tau = NAN;
        assert_ok(interval_best(cases[i], &tau));
        assert_in_range(tau, 1, 1000);
        double best = play(cases[i], tau, 100000);
        assert_true(best < play(cases[i], tau / 2, 200000));
        assert_true(best < play(cases[i], 2 * tau, 50000));
    }
}

TEST(test_interval_in_whole_steps) {
    static const struct { struct faults f; double step_s; } cases[] = {
        {{0.5, 0, 3600}, 0.25}, {{0.5, 9, 3600}, 7}, {{0.5, 0, 3600}, 100}, {{2, 0, 100}, 13.9}, {{2, 0, 100}, 6.1},
        {{8, 0, 100}, 29}, {{8, 0, 900}, 11}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t steps = -1, best = 1;
        double s = cases[i].step_s, least = INFINITY;
        assert_ok(interval_steps(cases[i].f, s, &steps));
        for (int k = 1; k < 1000; k++) {
            double cost = cases[i].f.save / (k * s) + k * s / (2 * cases[i].f.mtbf);
            if (cost < least) best = k;
            least = fmin(least, cost);
        }
        assert_int_equal(steps, best);
    }
    int64_t steps = -1;
    /* 14.14 s lie between one step (9.6) and two (19.2): 0.1522 and 0.1481 */
    assert_ok(interval_steps((struct faults){1, 0, 100}, 9.6, &steps));
    assert_int_equal(steps, 2);
}

/* Also for frequent failures, for which the first-order estimate exceeds 1. */
TEST(test_interval_wasted_exactly_is_what_is_played) {
    static const struct { struct faults f; double tau; } cases[] = {{{1, 0, 1000}, 100}, {{30, 60, 300}, 100},
                                                                    {{10, 0, 100}, 200}, {{100, 400, 1000}, 450}};
    for (int i = 0; i < 4; i++) {
        double fraction = NAN, played = play(cases[i].f, cases[i].tau, 200000);
        assert_ok(interval_wasted_exactly(cases[i].f, cases[i].tau, &fraction));
        assert_close(fraction, played, 0.01 * fraction);
        assert_true(fraction > 0 && fraction < 1);
    }
}

TESTS(unit_test(test_interval_mtbf_shrinks_with_the_nodes), unit_test(test_interval_wasted_is_right_to_first_order),
      unit_test(test_interval_best_is_the_cheapest), unit_test(test_interval_best_wins_when_played),
      unit_test(test_interval_in_whole_steps), unit_test(test_interval_wasted_exactly_is_what_is_played))
