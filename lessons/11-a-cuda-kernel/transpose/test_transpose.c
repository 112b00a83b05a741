/* ranks: 1  device: simt */
/* The transpose, number for number, and what it asks of memory. What the checker of memory reports fails the test that ran then. */
#include "lessons/11-a-cuda-kernel/transpose/transpose.h"
#include "lib/simt/simt_test.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

/* n floats and not one more; what a wrong kernel writes behind them is reported, and harms nobody. */
static float *device_floats(size_t n) {
    enum { SLACK = 1 << 17 };
    float *at = aligned_alloc(256, (n * sizeof *at + SLACK) / 256 * 256);
    assert_non_null(at);
    for (size_t i = 0; i < n; i++) at[i] = NAN;
    simt_memory_allocated(at, n * sizeof *at);
    return at;
}
static void device_free(float *at) {
    simt_memory_freed(at);
    free(at);
}

/* At once, whichever doubles of the runtime are linked. */
static enum status run(float *y, const float *x, int R, int C, enum simt_order order) {
    void (*submit)(void *, void (*)(void *), void *, size_t) = simt_submit;
    enum simt_order before = simt_get_order();
    simt_submit = NULL;
    simt_set_order(order);
    enum status status = transpose(y, x, R, C);
    simt_set_order(before);
    simt_submit = submit;
    if (simt_take_error()) return FAIL(E_DEVICE, "%s", simt_error_text());
    return status;
}

/* Transposes one matrix, looks at every number, and says what was moved. */
static struct simt_counts check(int R, int C, enum simt_order order) {
    size_t n = (size_t)R * (size_t)C, wrong = n;
    float *x = device_floats(n), *y = device_floats(n);
    for (size_t i = 0; i < n; i++) x[i] = (float)i;
    simt_count(1);
    enum status status = run(y, x, R, C, order);
    struct simt_counts counts = simt_counts();
    simt_count(0);
    for (size_t i = n; i-- > 0;)
        if (y[i] != (float)(i % (size_t)R * (size_t)C + i / (size_t)R)) wrong = i;
    float found = wrong < n ? y[wrong] : 0;
    device_free(x);
    device_free(y);
    assert_ok(status);
    if (wrong < n)
        fail_msg("R=%d C=%d: y[%zu,%zu] is %g; x[r,c] is r C + c", R, C, wrong / (size_t)R, wrong % (size_t)R, (double)found);
    return counts;
}

static const struct { int R, C; } sizes[] = {{1, 1}, {32, 32}, {1, 40}, {40, 1}, {31, 33}, {33, 31}, {64, 96}, {50, 7}, {100, 65}};

static void check_sizes(enum simt_order order) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check(sizes[i].R, sizes[i].C, order);
}
static void test_transpose_of_every_size(void **state) {
    (void)state;
    check_sizes(SIMT_FORWARD);
}
static void test_transpose_in_the_opposite_order(void **state) {
    (void)state;
    check_sizes(SIMT_REVERSE);
}

static void at_most(const char *what, int64_t count, int64_t limit) {
    assert_true(simt_checked());                             /* elsewhere nothing is counted */
    if (count > limit) fail_msg("128 x 96: %s: %lld; at most %lld", what, (long long)count, (long long)limit);
}
static void test_transpose_loads_whole_sectors(void **state) {
    (void)state;
    at_most("sectors read", check(128, 96, SIMT_FORWARD).load.units, 128 * 96 / 8);
}
static void test_transpose_stores_whole_sectors(void **state) {
    (void)state;
    at_most("sectors written", check(128, 96, SIMT_FORWARD).store.units, 128 * 96 / 8);
}
static void test_transpose_has_no_bank_conflicts(void **state) {
    (void)state;
    struct simt_counts n = check(128, 96, SIMT_FORWARD);
    at_most("sectors, read and written", n.load.units + n.store.units, 2 * 128 * 96 / 8);   /* no shared memory at all is no way out */
    at_most("wavefronts of shared memory", n.shared.units, n.shared.requests);
}

TESTS(unit_test(test_transpose_of_every_size), unit_test(test_transpose_in_the_opposite_order), unit_test(test_transpose_loads_whole_sectors),
      unit_test(test_transpose_stores_whole_sectors), unit_test(test_transpose_has_no_bank_conflicts))
