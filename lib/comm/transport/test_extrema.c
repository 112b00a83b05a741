/* ranks: 1  device: any */
/* Floating-point numbers as integers of the same order (comm_extrema.cu), as the device makes them. */
#include "lib/comm/transport/comm_extrema.h"
#include "tests/test.h"

#include <string.h>

enum { N = 300 };   /* more than one block */

#ifdef TRIVIUM_CUDA
enum { SPECIAL = 7 };

/* In ascending order; the last is NaN. */
static const double special[SPECIAL] = {-INFINITY, -3.5, -1e-30, 0, 1e-30, 2.25, INFINITY};

static int64_t integer(const void *x, int bytes, int i) {
    return bytes == 4 ? ((const int32_t *)x)[i] : ((const int64_t *)x)[i];
}

static void fill_in(void *x, int bytes) {
    for (int i = 0; i < N; i++) {
        double v = i == N - 1 ? NAN : special[i % SPECIAL];
        if (bytes == 4) ((float *)x)[i] = (float)v;
        else ((double *)x)[i] = v;
    }
}

static void check_order(int bytes, enum comm_reduction reduction) {
    const struct device *d = test_device();
    double numbers[N], before[N], *there;
    fill_in(before, bytes);
    assert_ok(d->allocate(d, sizeof numbers, (void **)&there));
    assert_ok(d->upload(d, there, before, sizeof numbers));
    assert_ok(extrema_encode(there, bytes, N, reduction, d->stream));
    assert_ok(d->download(d, numbers, there, sizeof numbers));
    for (int i = 0; i + 1 < N - 1; i++)
        if (i % SPECIAL + 1 < SPECIAL) assert_true(integer(numbers, bytes, i) < integer(numbers, bytes, i + 1));
    for (int i = 0; i < N - 1; i++)
        assert_true(reduction == COMM_MAX ? integer(numbers, bytes, i) < integer(numbers, bytes, N - 1)
                                          : integer(numbers, bytes, i) > integer(numbers, bytes, N - 1));
    assert_ok(extrema_decode(there, bytes, N, d->stream));
    assert_ok(d->download(d, numbers, there, sizeof numbers));
    assert_memory_equal(numbers, before, (size_t)(bytes * (N - 1)));
    assert_true(isnan(bytes == 4 ? (double)((float *)numbers)[N - 1] : numbers[N - 1]));
    d->release(d, there, sizeof numbers);
}

TEST(test_numbers_and_their_integers_have_one_order) {
    if (test_device()->kind == DEVICE_CPU) skip();
    for (int bytes = 4; bytes <= 8; bytes += 4) {
        check_order(bytes, COMM_MAX);
        check_order(bytes, COMM_MIN);
    }
}
#else
static void test_numbers_and_their_integers_have_one_order(void **state) { (void)state, skip(); }
#endif

/* device->fill writes the pattern to all 8-byte words of the range, and to none after it. */
TEST(test_fill_ends_where_it_should) {
    const struct device *d = test_device();
    uint64_t host[N], *there;
    assert_ok(d->allocate(d, sizeof host, (void **)&there));
    assert_ok(d->fill(d, there, 1, sizeof host));
    assert_ok(d->fill(d, there, UINT64_C(0x123456789abcdef0), 8 * (N - 1)));
    assert_ok(d->download(d, host, there, sizeof host));
    for (int i = 0; i < N - 1; i++) assert_true(host[i] == UINT64_C(0x123456789abcdef0));
    assert_true(host[N - 1] == 1);
    d->release(d, there, sizeof host);
}

TESTS(unit_test(test_numbers_and_their_integers_have_one_order), unit_test(test_fill_ends_where_it_should))
