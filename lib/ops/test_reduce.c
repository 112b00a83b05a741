/* ranks: 1  device: any */
#include "lib/base/rng.h"
#include "lib/ops/reduce.h"
#include "tests/test.h"
#include <omp.h>
#include <stdlib.h>

enum { N = 600001, MANY = 300 };   /* N: many of the CPU's blocks, and a remainder; MANY: more than two tables of
                                    * buffers */

static void *random_values(enum dtype dtype, int64_t n) {
    void *x = malloc((size_t)n * dtype_size(dtype));
    for (int i = 0; i < n; i++) dtype_set(x, dtype, i, rng_normal(1, 1, (uint64_t)i));
    return x;
}

/* ---- the device's memory ---- */
struct memory { void *there; int64_t bytes; };

static struct memory up(const void *x, int64_t bytes) {
    const struct device *d = test_device();
    struct memory m = {NULL, bytes};
    assert_ok(d->allocate(d, bytes, &m.there));
    assert_ok(d->upload(d, m.there, x, bytes));
    return m;
}
static void release(struct memory m) { test_device()->release(test_device(), m.there, m.bytes); }

typedef enum status reduction(const struct device *, const struct reduce_buffer *, int, double *, void *);

/* Reduce buffers in device memory, with scratch full of NaN. */
static double reduced(reduction *reduce, const struct reduce_buffer *b, int n) {
    const struct device *d = test_device();
    int64_t bytes = reduce_work(d->kind);
    double *nan = malloc((size_t)bytes + 8), result;
    for (int i = 0; i <= bytes / 8; i++) nan[i] = NAN;
    struct memory work = up(nan, bytes + 8), out = up(nan, 8);
    assert_ok(reduce(d, b, n, out.there, bytes ? work.there : NULL));
    assert_ok(d->download(d, &result, out.there, 8));
    free(nan);
    release(work);
    release(out);
    return result;
}

static double squares_of(const void *x, enum dtype dtype, int64_t n) {
    struct memory m = up(x, n * (int64_t)dtype_size(dtype));
    double sum = reduced(reduce_sum_of_squares, &(struct reduce_buffer){m.there, dtype, n}, 1);
    release(m);
    return sum;
}

/* ---- sum of squares ---- */

/* All terms are positive, so a sum's relative error is at most one rounding for each addition, N for the plain sum. */
TEST(test_sum_of_squares_is_the_sum) {
    static const enum dtype dtypes[] = {FP64, FP32, BF16, FP16};
    for (int d = 0; d < 4; d++) {
        void *x = random_values(dtypes[d], N);
        double sum = 0;
        for (int i = 0; i < N; i++) sum += dtype_get(x, dtypes[d], i) * dtype_get(x, dtypes[d], i);
        assert_close(squares_of(x, dtypes[d], N), sum, N * ldexp(sum, -53));
        free(x);
    }
    assert_close(reduced(reduce_sum_of_squares, NULL, 0), 0, 0);
    assert_close(reduced(reduce_sum_of_squares, &(struct reduce_buffer){NULL, FP32, 0}, 1), 0, 0);
}

/* Integers are added exactly in any order, so every missing, repeated or foreign element shows. The buffers have every
 * dtype and many lengths from 0 on, and begin at any element of one allocation. */
TEST(test_sum_of_squares_of_many_buffers_counts_each_element_once) {
    static const enum dtype dtypes[] = {FP64, FP32, BF16, FP16};
    enum { ROOM = 2000 };
    struct reduce_buffer b[MANY];
    struct memory memory[4];
    for (int d = 0; d < 4; d++) {
        char values[ROOM * 8];
        for (int i = 0; i < ROOM; i++) dtype_set(values, dtypes[d], i, i % 11 - 5);
        memory[d] = up(values, sizeof values);
    }
    double sum = 0;
    for (int k = 0; k < MANY; k++) {
        int d = k % 7 % 4, first = k % 13, n = k < 100 ? k : 5 * k;
        b[k] = (struct reduce_buffer){(char *)memory[d].there + first * (int)dtype_size(dtypes[d]), dtypes[d], n};
        for (int i = first; i < first + n; i++) sum += (i % 11 - 5) * (i % 11 - 5);
    }
    assert_close(reduced(reduce_sum_of_squares, b, MANY), sum, 0);
    assert_close(reduced(reduce_sum_of_squares, b, MANY), sum, 0);
    for (int d = 0; d < 4; d++) release(memory[d]);
}

/* More chunks than a GPU's grid has blocks, so that a block takes several: the same memory again and again. */
TEST(test_sum_of_squares_of_more_than_a_grid_of_chunks) {
    enum { LENGTH = 524288, TIMES = 20 };
    double *x = malloc(LENGTH * sizeof *x), sum = 0;
    for (int i = 0; i < LENGTH; i++) x[i] = i % 11 - 5;
    for (int i = 0; i < LENGTH; i++) sum += x[i] * x[i];
    struct memory m = up(x, LENGTH * (int64_t)sizeof *x);
    struct reduce_buffer b[TIMES];
    for (int k = 0; k < TIMES; k++) b[k] = (struct reduce_buffer){m.there, FP64, LENGTH - k % 2};
    double last = x[LENGTH - 1] * x[LENGTH - 1];
    assert_close(reduced(reduce_sum_of_squares, b, TIMES), TIMES * sum - TIMES / 2 * last, 0);
    release(m);
    free(x);
}

TEST(test_sum_of_squares_does_not_depend_on_threads) {
    float *x = random_values(FP32, N);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    double one = squares_of(x, FP32, N);
    for (int n = 2; n <= 5; n++) {
        omp_set_num_threads(n);
        assert_close(squares_of(x, FP32, N), one, 0);
    }
    omp_set_num_threads(threads);
    free(x);
}

TEST(test_sum_of_squares_passes_on_what_is_not_finite) {
    float x[] = {1, 2, INFINITY, 3}, y[] = {1, 2, NAN, 3};
    double wide[] = {1e200, 1};
    assert_true(isinf(squares_of(x, FP32, 4)));
    assert_true(isnan(squares_of(y, FP32, 4)));
    assert_true(isinf(squares_of(wide, FP64, 2)));
    x[2] = 3e38f;                        /* finite, but its square overflows fp32 */
    assert_true(isfinite(squares_of(x, FP32, 4)));
}

/* ---- numbers that are not finite ---- */

TEST(test_non_finite_sees_every_place) {
    static const int places[] = {0, 15, 1023, 1024, 262144, N - 1};
    static const enum dtype dtypes[] = {BF16, FP32, FP16, FP64, BF16, FP32};
    for (int i = 0; i < 6; i++) {
        enum dtype d = dtypes[i];
        int64_t size = (int64_t)dtype_size(d), after = places[i] + 1;
        char *x = random_values(d, N);
        struct memory clean = up(x, N * size);
        dtype_set(x, d, places[i], i % 2 ? NAN : -INFINITY);
        struct memory bad = up(x, N * size);
        const struct reduce_buffer b[] = {{clean.there, d, N}, {bad.there, d, N},
                                          {(char *)bad.there + after * size, d, N - after}};
        assert_close(reduced(reduce_non_finite, b, 1), 0, 0);
        assert_true(reduced(reduce_non_finite, b, 2) > 0);
        assert_true(reduced(reduce_non_finite, b + 1, 2) > 0);
        assert_close(reduced(reduce_non_finite, b + 2, 1), 0, 0);
        release(clean);
        release(bad);
        free(x);
    }
}

TEST(test_non_finite_does_not_overflow_by_itself) {
    float big[2] = {3e38f, -3e38f};
    struct memory m = up(big, sizeof big);
    assert_close(reduced(reduce_non_finite, &(struct reduce_buffer){m.there, FP32, 2}, 1), 0, 0);
    release(m);
}

/* ---- adding one number ---- */

TEST(test_reduce_add_adds_the_first_element) {
    static const enum dtype dtypes[] = {FP64, FP32, BF16, FP16};
    const struct device *device = test_device();
    double sum = 1;
    struct memory total = up(&sum, sizeof sum);
    for (int d = 0; d < 4; d++) {
        double x[2];
        dtype_set(x, dtypes[d], 0, 0.375 * (d + 1));
        dtype_set(x, dtypes[d], 1, 100);
        struct memory m = up(x, sizeof x);
        assert_ok(reduce_add(device, total.there, m.there, dtypes[d]));
        assert_ok(device->finish(device));
        release(m);
    }
    assert_ok(device->download(device, &sum, total.there, sizeof sum));
    assert_close(sum, 1 + 0.375 * 10, 0);
    release(total);
}

TEST(test_reductions_refuse_integers) {
    double out;
    struct reduce_buffer b[] = {{NULL, FP32, 0}, {NULL, INT32, 1}};
    assert_fails(reduce_sum_of_squares(test_device(), b, 2, &out, NULL), E_CONFIG, "int32", "fp32");
    assert_fails(reduce_non_finite(test_device(), b, 2, &out, NULL), E_CONFIG, "int32");
    assert_fails(reduce_add(test_device(), &out, &out, UINT8), E_CONFIG, "uint8");
}

/* Each element is rounded once. 3 elements take one thread, N several. Only for the CPU, because only --sums fixed adds
 * arrays. */
TEST(test_arrays_are_added_in_place) {
    if (test_device()->kind != DEVICE_CPU) skip();
    for (enum dtype dtype = FP64; dtype <= FP16; dtype++)
        for (int64_t n = 3; n <= N; n += N - 3) {
            void *x = random_values(dtype, n + 1), *sum = random_values(dtype, n + 1);
            for (int64_t i = 0; i < n; i++) dtype_set(sum, dtype, i, 1 + 0.5 * dtype_get(x, dtype, i));
            assert_ok(reduce_accumulate(device_cpu(), sum, x, n, dtype));
            bool ok = true;
            for (int64_t i = 0; i < n; i++) {
                double term = dtype_get(x, dtype, i), before[1];
                dtype_set(before, dtype, 0, 1 + 0.5 * term);
                dtype_set(before, dtype, 0, dtype_get(before, dtype, 0) + term);
                ok &= dtype_get(sum, dtype, i) == dtype_get(before, dtype, 0);
            }
            assert_true(ok);
            assert_true(dtype_get(sum, dtype, n) == dtype_get(x, dtype, n));          /* unchanged */
            free(x), free(sum);
        }
}

TESTS(unit_test(test_sum_of_squares_is_the_sum),
      unit_test(test_sum_of_squares_of_many_buffers_counts_each_element_once),
      unit_test(test_sum_of_squares_of_more_than_a_grid_of_chunks),
      unit_test(test_sum_of_squares_does_not_depend_on_threads),
      unit_test(test_sum_of_squares_passes_on_what_is_not_finite), unit_test(test_non_finite_sees_every_place),
      unit_test(test_non_finite_does_not_overflow_by_itself), unit_test(test_reduce_add_adds_the_first_element),
      unit_test(test_reductions_refuse_integers), unit_test(test_arrays_are_added_in_place))
