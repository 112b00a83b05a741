/* ranks: 1  device: any
 *
 * Copy shards into a bucket, and add sums out of it, with every alignment and in every dtype. The memory around them
 * must not change. */
#include "lib/base/rng.h"
#include "tests/test.h"
#include "zero/zero_pack.h"
#include <stdlib.h>
#include <string.h>

enum { N = 9000, MOST = 8 * N };   /* elements; their bytes in fp64 */
static const enum dtype DTYPES[] = {FP64, FP32, BF16, FP16};

/* up: allocate an operand on the device and upload x. down: download it, if x is not NULL, and release it. */
static char *up(const void *x, int64_t bytes) {
    const struct device *d = test_device();
    void *there;
    assert_ok(d->allocate(d, bytes, &there));
    assert_ok(d->upload(d, there, x, bytes));
    return there;
}
static void down(void *x, char *there, int64_t bytes) {
    const struct device *d = test_device();
    if (x) assert_ok(d->download(d, x, there, bytes));
    d->release(d, there, bytes);
}

/* ---- copy into a bucket ---- */

/* In each rank's range of the bucket a shard has `at` bytes before it and `rest` bytes after it. */
static void check_pack(int n_ranks, int64_t bytes, int64_t at, int64_t rest) {
    static unsigned char gradient[MOST], bucket[MOST], expected[MOST];
    int64_t stride = at + bytes + rest, room = stride * n_ranks;
    assert_true(room <= MOST);
    memset(bucket, 0xee, sizeof bucket);
    memset(expected, 0xee, sizeof expected);
    for (int64_t i = 0; i < bytes * n_ranks; i++) gradient[i] = (unsigned char)(i * 7 + i / 251);
    for (int r = 0; r < n_ranks; r++) memcpy(expected + r * stride + at, gradient + r * bytes, (size_t)bytes);
    char *from = up(gradient, MOST), *to = up(bucket, MOST);
    assert_ok(zero_pack(test_device(), to + at, stride, from, bytes, n_ranks));
    down(bucket, to, MOST);
    down(NULL, from, MOST);
    assert_memory_equal(bucket, expected, MOST);
}

TEST(test_zero_pack_puts_each_shard_into_its_ranks_part) {
    static const int64_t bytes[] = {0, 2, 4, 8, 10, 16, 48, 500, 2000, 4098, 8192};
    for (int i = 0; i < 11; i++)
        for (int n_ranks = 1; n_ranks <= 8; n_ranks *= 2) {
            check_pack(n_ranks, bytes[i], 0, 0);
            check_pack(n_ranks, bytes[i], 16, 32);
            check_pack(n_ranks, bytes[i], 2, 6);
            check_pack(n_ranks, bytes[i], 8, 4);
        }
}

/* ---- add out of a bucket ---- */

/* The result must have the bits of the sum in double, rounded once. The sum of two floats in double is exact, or near
 * enough that rounding it gives the bits of an addition in float. */
static void check_add(enum dtype dtype, int64_t n, int64_t own_first, int64_t sum_first) {
    static char own[MOST], sum[MOST], expected[MOST];
    int64_t size = (int64_t)dtype_size(dtype);
    memset(own, 0, sizeof own);
    for (int64_t i = 0; i < N; i++) {
        dtype_set(own, dtype, i, rng_normal(1, 1, (uint64_t)i));
        dtype_set(sum, dtype, i, rng_normal(1, 2, (uint64_t)i) * ldexp(1, (int)(i % 9)));
    }
    memcpy(expected, own, sizeof own);
    for (int64_t i = 0; i < n; i++)
        dtype_set(expected, dtype, own_first + i,
                  dtype_get(own, dtype, own_first + i) + dtype_get(sum, dtype, sum_first + i));
    char *to = up(own, MOST), *from = up(sum, MOST);
    assert_ok(zero_add(test_device(), to + own_first * size, from + sum_first * size, n, dtype));
    down(own, to, MOST);
    down(NULL, from, MOST);
    assert_memory_equal(own, expected, MOST);
}

TEST(test_zero_add_adds_and_rounds_once) {
    static const int64_t lengths[] = {0, 1, 7, 8, 31, 2048, 8191};
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < 7; i++) {
            check_add(DTYPES[d], lengths[i], 0, 0);
            check_add(DTYPES[d], lengths[i], 16, 8);
            check_add(DTYPES[d], lengths[i], 3, 0);
            check_add(DTYPES[d], lengths[i], 0, 1);
            check_add(DTYPES[d], lengths[i], 5, 5);
        }
}

TESTS(unit_test(test_zero_pack_puts_each_shard_into_its_ranks_part), unit_test(test_zero_add_adds_and_rounds_once))
