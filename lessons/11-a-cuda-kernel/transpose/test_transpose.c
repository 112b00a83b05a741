/* ranks: 1  device: simt */
/* The transpose's numbers, and separately its memory traffic. A report of the memory checker fails the running test. */
#include "lessons/11-a-cuda-kernel/transpose/transpose.h"
#include "tests/simt/kernel_test.h"

#include <stdio.h>

static enum status run(float *y, const float *x, int R, int C, enum simt_order order) {
    struct kernel_run before = kernel_begin(order);
    return kernel_end(before, transpose(y, x, R, C));
}

/* Transpose one matrix, and return the traffic. *wrong: the index of the first wrong number in y, R C if all are right;
 * *found: this number. */
static struct simt_counts measure(int R, int C, enum simt_order order, size_t *wrong, float *found) {
    size_t n = *wrong = (size_t)R * (size_t)C;
    float *x = device_floats(n), *y = device_floats(n);
    for (size_t i = 0; i < n; i++) x[i] = (float)i;
    simt_count(1);
    enum status status = run(y, x, R, C, order);
    struct simt_counts counts = simt_counts();
    simt_count(0);
    for (size_t i = n; i-- > 0;)
        if (y[i] != (float)(i % (size_t)R * (size_t)C + i / (size_t)R)) *wrong = i, *found = y[i];
    device_free(x);
    device_free(y);
    assert_ok(status);
    return counts;
}

static void check(int R, int C, enum simt_order order) {
    size_t n = (size_t)R * (size_t)C, wrong;
    float found;
    measure(R, C, order, &wrong, &found);
    if (wrong < n)
        fail_msg("R=%d C=%d: y[%zu,%zu] is %g; x[r,c] is r C + c", R, C, wrong / (size_t)R, wrong % (size_t)R,
                 (double)found);
}

static const struct { int R, C; } sizes[] = {{1, 1}, {32, 32}, {1, 40}, {40, 1}, {31, 33}, {33, 31}, {64, 96}, {50, 7},
                                             {100, 65}};

static void check_sizes(enum simt_order order) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check(sizes[i].R, sizes[i].C, order);
}
TEST(test_transpose_of_every_size) {
    check_sizes(SIMT_FORWARD);
}
TEST(test_transpose_in_the_opposite_order) {
    check_sizes(SIMT_REVERSE);
}

/* The traffic of a matrix of 128 x 96. A kernel that lacks a barrier can pass, if it reads and writes all bytes. */
enum { BYTES = 128 * 96 * 4, SECTORS = BYTES / 32 };
static struct simt_counts traffic(void) {
    size_t wrong;
    float found;
    assert_true(simt_checked());                             /* other builds count no traffic */
    return measure(128, 96, SIMT_FORWARD, &wrong, &found);
}
static void check_traffic(const char *what, int64_t bytes, int64_t least, int64_t units, int64_t limit) {
    if (bytes < least)
        fail_msg("128 x 96: %s of %lld bytes only; there are %lld", what, (long long)bytes, (long long)least);
    if (units > limit) fail_msg("128 x 96: %s: %lld; at most %lld", what, (long long)units, (long long)limit);
}
TEST(test_transpose_loads_whole_sectors) {
    struct simt_counts n = traffic();
    check_traffic("sectors read", n.load.bytes, BYTES, n.load.units, SECTORS);
}
TEST(test_transpose_stores_whole_sectors) {
    struct simt_counts n = traffic();
    check_traffic("sectors written", n.store.bytes, BYTES, n.store.units, SECTORS);
}
TEST(test_transpose_has_no_bank_conflicts) {
    struct simt_counts n = traffic();                        /* a kernel without shared memory fails, too */
    int64_t bytes = n.load.bytes + n.store.bytes, sectors = n.load.units + n.store.units;
    check_traffic("sectors, read and written", bytes, 2 * BYTES, sectors, 2 * SECTORS);
    check_traffic("wavefronts of shared memory", n.shared.bytes, 2 * BYTES, n.shared.units, n.shared.requests);
}

TESTS(unit_test(test_transpose_of_every_size), unit_test(test_transpose_in_the_opposite_order),
      unit_test(test_transpose_loads_whole_sectors), unit_test(test_transpose_stores_whole_sectors),
      unit_test(test_transpose_has_no_bank_conflicts))
