/* ranks: 1  device: cpu
 * Closed forms of failures and stragglers agree with their simulation. */
#include "tests/test.h"

#include "lib/base/rng.h"
#include "planner/failure.h"

#include <math.h>

static double cost(double t, double d, double m) { return d / t + t / (2 * m); }

/* Young's interval costs less than its neighbors. A known value: 60 s, if a save takes 0.5 s and a failure comes once
 * an hour. */
TEST(test_young_interval_is_the_cheapest) {
    assert_close(failure_interval_young(0.5, 3600), 60, 1e-12);
    const double d[] = {0.01, 3, 120}, m[] = {600, 86400, 1e6};
    for (int i = 0; i < 3; i++) {
        double t = failure_interval_young(d[i], m[i]);
        assert_true(cost(t, d[i], m[i]) < cost(0.99 * t, d[i], m[i]));
        assert_true(cost(t, d[i], m[i]) < cost(1.01 * t, d[i], m[i]));
    }
    assert_true(isnan(failure_interval_young(0, 3600)));
    assert_true(isnan(failure_interval_young(1, -1)));
}

/* Daly's interval maximizes his goodput, up to the terms that he drops, and beats Young's if saves are long. */
TEST(test_daly_interval_has_the_best_goodput) {
    const double d[] = {5, 60, 600}, m[] = {11124, 3600, 3600};
    for (int i = 0; i < 3; i++) {
        double t = failure_interval_daly(d[i], m[i]), best = 0;
        for (double x = 0.2 * t; x < 5 * t; x *= 1.001) best = fmax(best, failure_goodput(x, d[i], m[i], 600));
        assert_true(failure_goodput(t, d[i], m[i], 600) > best * (1 - 1e-4));
        assert_true(failure_goodput(4 * t, d[i], m[i], 600) < best * (1 - 0.02));
    }
    assert_true(failure_goodput(failure_interval_daly(600, 3600), 600, 3600, 0) >
                failure_goodput(failure_interval_young(600, 3600), 600, 3600, 0));
    assert_close(failure_interval_daly(8000, 3600), 3600, 1e-12);    /* the save is longer than two mtbf */
    assert_true(isnan(failure_interval_daly(0, 3600)));
}

/* ---- a job, event by event ---- */
struct job { uint64_t stream, draws; double m; };
static double until_failure(struct job *j) { return -j->m * log(rng_uniform(7, j->stream, j->draws++)); }

static double simulated_goodput(double interval, double d, double m, double restart, double work) {
    struct job j = {rng_stream("failures"), 0, m};
    double t = 0, done = 0, next = until_failure(&j);
    while (done < work) {
        if (next >= t + interval + d) {
            t += interval + d, done += interval;
            continue;
        }
        for (t = next, next = t + until_failure(&j); next < t + restart; next = t + until_failure(&j)) t = next;
        t += restart;
    }
    return done / t;
}

TEST(test_goodput_is_that_of_three_hundred_million_seconds) {
    const double rank = 54 * 24 * 3600.0 * 16384 / 419;              /* Llama 3: 419 failures of 16384 in 54 days */
    const struct { double n, d, restart; } jobs[] = {
        {16384, 5, 600}, {16384, 60, 600}, {4096, 60, 600}, {1024, 60, 180}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        double m = rank / jobs[i].n, t = failure_interval_daly(jobs[i].d, m);
        double closed = failure_goodput(t, jobs[i].d, m, jobs[i].restart);
        assert_close(simulated_goodput(t, jobs[i].d, m, jobs[i].restart, 3e8) / closed, 1, 3e-3);
    }
    double m = rank / 16384;
    assert_close(m / 3600, 3.093, 5e-4);
    assert_close(failure_mtbf(rank, 16384), m, 1e-9 * m);
    assert_true(isinf(failure_mtbf(0, 16384)));
    assert_close(failure_goodput(failure_interval_daly(5, m), 5, m, 600), 0.9194, 1e-4);
}

TEST(test_a_failure_costs_more_the_more_ranks) {
    double last = 1;
    for (double n = 1; n <= 1 << 20; n *= 4) {
        double m = 1.8e8 / n, now = failure_goodput(failure_interval_daly(30, m), 30, m, 600);
        assert_true(now < last && now > 0);
        last = now;
    }
}

/* ---- stragglers ---- */
static double simulated_slowest(int n, double cv, double q, double f, int steps) {
    uint64_t normal = rng_stream("normal"), slow = rng_stream("slow"), k = 0;
    double sum = 0;
    for (int i = 0; i < steps; i++) {
        double slowest = 0;
        for (int j = 0; j < n; j++, k++)
            slowest = fmax(slowest, (1 + cv * rng_normal(9, normal, k)) * (rng_uniform(9, slow, k) < q ? f : 1));
        sum += slowest;
    }
    return sum / steps;
}

TEST(test_the_slowest_of_n) {
    assert_close(failure_slowest(1, 0.01, 0, 1), 1, 1e-12);
    const int nodes[] = {8, 128, 2048}, steps[] = {40000, 4000, 250};
    for (int i = 0; i < 3; i++)
        assert_close(failure_slowest(nodes[i], 0.01, 0, 1), simulated_slowest(nodes[i], 0.01, 0, 1, steps[i]), 1e-3);
    double bound = failure_slowest(2048, 0.01, 5e-4, 1.1), drawn = simulated_slowest(2048, 0.01, 5e-4, 1.1, 250);
    assert_true(drawn < bound && drawn > bound - 0.03);              /* the slow machine need not be late */
    assert_close(failure_slowest(128, 0, 1, 1.5), 1.5, 1e-12);       /* all are slow */
}

TEST(test_any_of_n) {
    assert_close(failure_of_any(1, 0.25), 0.25, 1e-12);
    assert_close(failure_of_any(2, 0.25), 1 - 0.75 * 0.75, 1e-12);
    assert_close(failure_of_any(1e9, 1e-9), 1 - exp(-1), 1e-8);
}

TESTS(unit_test(test_young_interval_is_the_cheapest), unit_test(test_daly_interval_has_the_best_goodput),
      unit_test(test_goodput_is_that_of_three_hundred_million_seconds),
      unit_test(test_a_failure_costs_more_the_more_ranks), unit_test(test_the_slowest_of_n), unit_test(test_any_of_n))
