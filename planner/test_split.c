/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "lib/base/integer.h"
#include "lib/base/rng.h"
#include "planner/split.h"

#include <math.h>

enum { STAGES = 8, LAYERS = 40 };

/* The least time of the slowest stage, by dynamic programming over stages and layers; INFINITY: no split exists. */
static double least_of_all(int n, int64_t layers, double t, const double *fixed, const int64_t *most) {
    double best[LAYERS + 1], next[LAYERS + 1];
    for (int k = 0; k <= layers; k++) best[k] = k ? INFINITY : 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= layers; k++) {
            next[k] = INFINITY;
            for (int own = 1; own <= min64(most[i], k); own++)
                next[k] = fmin(next[k], fmax(best[k - own], fixed[i] + own * t));
        }
        for (int k = 0; k <= layers; k++) best[k] = next[k];
    }
    return best[layers];
}

static int64_t drawn(uint64_t k, int64_t from, int64_t to) {
    return from + (int64_t)(rng_uniform(5, rng_stream("split"), k) * (double)(to - from + 1));
}

TEST(test_split_is_that_of_all_splits) {
    uint64_t k = 0;
    int refused = 0;
    for (int round = 0; round < 2000; round++) {
        int n = (int)drawn(k++, 1, STAGES);
        int64_t layers = drawn(k++, n, LAYERS), most[STAGES], layers_of[STAGES], sum = 0;
        double fixed[STAGES] = {0}, slowest = 0, t = 0.1 + rng_uniform(5, 1, k++);
        fixed[0] += 2 * rng_uniform(5, 1, k++), fixed[n - 1] += 3 * rng_uniform(5, 1, k++);
        for (int i = 0; i < n; i++) most[i] = drawn(k++, 1, 14);
        double least = least_of_all(n, layers, t, fixed, most);
        if (split_layers(n, layers, t, fixed, most, layers_of) != OK) {
            assert_true(isinf(least));
            status_clear();
            refused++;
            continue;
        }
        for (int i = 0; i < n; i++) {
            assert_in_range(layers_of[i], 1, most[i]);
            sum += layers_of[i], slowest = fmax(slowest, fixed[i] + (double)layers_of[i] * t);
        }
        assert_int_equal(sum, layers);
        assert_close(slowest, least, 1e-12);
    }
    assert_in_range(refused, 100, 1900);
}

/* A head of 1.65 layers: its stage has one layer fewer than in an even split; and a full first stage gives its
 * layers away. */
TEST(test_split_of_a_heavy_head) {
    int64_t layers_of[4], most[4] = {30, 30, 30, 30};
    const double fixed[4] = {0, 0, 0, 1.65};
    assert_ok(split_layers(4, 30, 1, fixed, most, layers_of));
    const int64_t wanted[4] = {8, 8, 8, 6};
    for (int i = 0; i < 4; i++) assert_int_equal(layers_of[i], wanted[i]);
    most[0] = 5;
    assert_ok(split_layers(4, 30, 1, fixed, most, layers_of));
    assert_int_equal(layers_of[0], 5);
    most[0] = 0;
    assert_fails(split_layers(4, 30, 1, fixed, most, layers_of), E_CONFIG, "4 stages cannot hold layers=30");
    most[0] = 30;
    assert_fails(split_layers(4, 3, 1, fixed, most, layers_of), E_CONFIG, "4 stages cannot hold layers=3");
}

TESTS(unit_test(test_split_is_that_of_all_splits), unit_test(test_split_of_a_heavy_head))
