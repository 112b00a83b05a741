/* ranks: 1  device: cpu
 *
 * The formulas compared with a simulated job: stretches of work and saves, failures drawn from the exponential
 * distribution, also during a restart. With k failures a mean has a relative error of about 1/sqrt(k). Each job has at
 * least 20000 failures, so the waste is known to 0.7 %, and bounds are 2 % of it. Every run has the same draws. */
#include "lib/base/rng.h"
#include "planner/budget.h"
#include "planner/failure.h"
#include "tests/test.h"
#include <math.h>

/* Llama 3 report, section 3.3.4: 419 failures of 16384 GPUs in 54 days. */
static const double DAY_S = 86400, LLAMA_GPUS = 16384, LLAMA_FAILURES = 419, LLAMA_DAYS = 54;
static double llama_rank_s(void) { return LLAMA_DAYS * DAY_S * LLAMA_GPUS / LLAMA_FAILURES; }

/* The goodput of a simulated job of n stretches of t seconds. */
static double played(double t, double d, double m, double restart, int n) {
    const uint64_t stream = rng_stream("lesson 16");
    uint64_t draw = 0;
    double now = 0, next = -m * log1p(-rng_uniform(16, stream, draw++));
    for (int done = 0; done < n;) {
        if (next >= now + t + d) {
            now += t + d, done++;
            continue;
        }
        for (now = next;; now = next) {                              /* until a restart has no failure */
            next = now - m * log1p(-rng_uniform(16, stream, draw++));
            if (next >= now + restart) break;
        }
        now += restart;
    }
    return n * t / now;
}

TEST(test_daly_more_ranks_fail_more_often) {
    double rank = llama_rank_s(), job = failure_mtbf(rank, LLAMA_GPUS);
    assert_close(job / 3600, 3.093, 5e-4);
    assert_close(LLAMA_DAYS * DAY_S / job, LLAMA_FAILURES, 1e-6);
    assert_close(failure_mtbf(rank, 1), rank, 1e-6);
    assert_close(failure_mtbf(1000, 8), 125, 1e-9);
    assert_true(isinf(failure_mtbf(0, 8)));
}

TEST(test_daly_young_is_cheapest_to_first_order) {
    static const double d[] = {0.5, 5, 60}, m[] = {3600, 11124, 86400};
    for (int i = 0; i < 3; i++) {
        double t = failure_interval_young(d[i], m[i]), least = d[i] / t + t / (2 * m[i]);
        assert_close(t, sqrt(2) * sqrt(d[i] * m[i]), 1e-9 * t);
        for (int percent = 50; percent <= 200; percent += 10) {
            double other = t * percent / 100;
            assert_true(d[i] / other + other / (2 * m[i]) >= least * (1 - 1e-12));
        }
    }
    assert_close(failure_interval_young(0.5, 3600), 60, 1e-9);
}

/* The t that maximizes t / (e^((t+d)/m) - 1), by ternary search. */
static double best_interval(double d, double m) {
    double low = 1e-6 * m, high = 3 * m;
    for (int i = 0; i < 200; i++) {
        double a = low + (high - low) / 3, b = high - (high - low) / 3;
        if (a / expm1((a + d) / m) < b / expm1((b + d) / m)) low = a;
        else high = b;
    }
    return low;
}

TEST(test_daly_interval_is_the_best_there_is) {
    static const double d[] = {5, 60, 60, 600}, m[] = {11124, 11124, 3600, 3600};
    for (int i = 0; i < 4; i++) {
        double t = failure_interval_daly(d[i], m[i]), best = best_interval(d[i], m[i]);
        if (!(fabs(t / best - 1) < 1e-3))
            fail_msg("a save of %g s and a failure in %g s: %g s between saves, and the best are %g s", d[i], m[i], t,
                     best);
    }
    assert_close(failure_interval_daly(3600, 3600), best_interval(3600, 3600), 0.02 * 3600);
}

TEST(test_daly_interval_of_long_saves) {
    assert_close(failure_interval_daly(7200, 3600), 3600, 1e-9);
    assert_close(failure_interval_daly(1e6, 3600), 3600, 1e-9);
    assert_true(failure_interval_daly(7100, 3600) < 3600);
    assert_true(isnan(failure_interval_daly(0, 3600)));
    assert_true(isnan(failure_interval_daly(5, 0)));
}

TEST(test_daly_goodput_is_what_is_played) {
    static const struct { double t, d, m, restart; int n; } jobs[] = {
        {330, 5, 11124, 600, 700000}, {1116, 60, 11124, 600, 200000}, {900, 30, 3600, 300, 100000},
        {3600, 60, 11124, 0, 80000}};
    for (int i = 0; i < 4; i++) {
        double said = failure_goodput(jobs[i].t, jobs[i].d, jobs[i].m, jobs[i].restart);
        double was = played(jobs[i].t, jobs[i].d, jobs[i].m, jobs[i].restart, jobs[i].n);
        if (!(fabs(said - was) < 0.02 * (1 - was)))
            fail_msg("save %g s after %g s, a failure in %g s, restart %g s: goodput %.4f, and %.4f was played",
                     jobs[i].d, jobs[i].t, jobs[i].m, jobs[i].restart, said, was);
    }
}

/* Saves take as long as the work between them, so half of the failures come during a save. */
TEST(test_daly_failures_come_while_saving) {
    double was = played(600, 600, 1800, 0, 60000);
    assert_close(failure_goodput(600, 600, 1800, 0), was, 0.02 * (1 - was));
    assert_close(failure_goodput(600, 600, 1e9, 0), 0.5, 1e-5);      /* with few failures: half of the time */
}

/* Restarts take as long as the mean time between failures, so most of them fail. */
TEST(test_daly_failures_come_while_restarting) {
    double was = played(300, 10, 1800, 1800, 100000);
    assert_close(failure_goodput(300, 10, 1800, 1800), was, 0.02 * was);
    assert_close(failure_goodput(300, 10, 1800, 1800) / failure_goodput(300, 10, 1800, 0), exp(-1), 1e-9);
}

/* 3.8e25 flops at an mfu of 0.41, a save of 5 s, a restart of 10 minutes. The report's effective time exceeds 90 %. */
TEST(test_daly_budget_of_llama_3) {
    struct cluster c;
    assert_ok(cluster_read("dgx-h100", &c));
    struct budget b = budget_make(&c, &(struct budget_of){3.8e25, 989.5e12, 0.41, LLAMA_GPUS, 5, 600, 0});
    assert_close(b.failures / (b.wall_s / DAY_S) * LLAMA_DAYS, LLAMA_FAILURES, 0.01);
    assert_close(b.interval_s, 330.4, 0.1);
    assert_close(b.goodput, 0.9194, 1e-4);
    assert_close(b.wall_s / DAY_S, 75, 3);
}

TESTS(unit_test(test_daly_more_ranks_fail_more_often), unit_test(test_daly_young_is_cheapest_to_first_order),
      unit_test(test_daly_interval_is_the_best_there_is), unit_test(test_daly_interval_of_long_saves),
      unit_test(test_daly_goodput_is_what_is_played), unit_test(test_daly_failures_come_while_saving),
      unit_test(test_daly_failures_come_while_restarting), unit_test(test_daly_budget_of_llama_3))
