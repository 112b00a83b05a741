/* ranks: 1  device: any */
#include "lib/base/rng.h"
#include "lib/ops/reduce.h"
#include "tests/test.h"
#include <omp.h>
#include <stdlib.h>

enum { N = 600001 };   /* more than one round of blocks, and a remainder */

static void *random_values(enum dtype dtype) {
    void *x = malloc(N * dtype_size(dtype));
    for (int i = 0; i < N; i++) dtype_set(x, dtype, i, rng_normal(1, 1, (uint64_t)i));
    return x;
}

/* All terms are positive, so the relative error of either sum is at most its depth in roundings: N for the plain one.
 */
static void test_sum_of_squares_is_the_sum(void **state) {
    (void)state;
    static const enum dtype dtypes[] = {FP64, FP32, BF16, FP16};
    for (int d = 0; d < 4; d++) {
        void *x = random_values(dtypes[d]);
        double sum = 0;
        for (int i = 0; i < N; i++) sum += dtype_get(x, dtypes[d], i) * dtype_get(x, dtypes[d], i);
        assert_close(reduce_sum_of_squares(x, dtypes[d], N), sum, N * ldexp(sum, -53));
        free(x);
    }
    assert_close(reduce_sum_of_squares(NULL, FP32, 0), 0, 0);
}

static void test_sum_of_squares_does_not_depend_on_threads(void **state) {
    (void)state;
    float *x = random_values(FP32);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    double one = reduce_sum_of_squares(x, FP32, N);
    for (int n = 2; n <= 5; n++) {
        omp_set_num_threads(n);
        assert_close(reduce_sum_of_squares(x, FP32, N), one, 0);
    }
    omp_set_num_threads(threads);
    free(x);
}

static void test_all_finite_sees_every_place(void **state) {
    (void)state;
    static const int places[] = {0, 15, 1023, 1024, 262144, N - 1};
    for (int i = 0; i < 6; i++) {
        uint16_t *x = random_values(BF16);
        assert_true(reduce_all_finite(x, BF16, N));
        dtype_set(x, BF16, places[i], i % 2 ? NAN : -INFINITY);
        assert_false(reduce_all_finite(x, BF16, N));
        assert_true(reduce_all_finite(x + places[i] + 1, BF16, N - 1 - places[i]));
        free(x);
    }
    float big[2] = {3e38f, -3e38f};   /* finite, though the square is not in fp32 */
    assert_true(reduce_all_finite(big, FP32, 2));
}

TESTS(unit_test(test_sum_of_squares_is_the_sum), unit_test(test_sum_of_squares_does_not_depend_on_threads),
      unit_test(test_all_finite_sees_every_place))
