/* ranks: 1  device: simt */
/* Softmax over rows, compared with fp64. A report of the memory checker fails the running test. */
#include "lessons/11-a-cuda-kernel/softmax/softmax_rows.h"
#include "tests/simt/kernel_test.h"

#include <stdio.h>
#include <string.h>

static const struct { int R, C; } sizes[] = {{1, 1}, {3, 2}, {4, 31}, {2, 32}, {5, 33}, {3, 100}, {3, 127}, {2, 257},
                                             {3, 1000}, {2, 1024}, {2, 1025}, {1, 2500}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* x and y on the device, of exactly R C floats each, with checked bounds. y is NaN at first. */
struct rows { int R, C; float *x, *y; enum status status; };

static struct rows rows_create(int R, int C, float scale, float shift) {
    size_t n = (size_t)R * (size_t)C;
    struct rows rows = {R, C, device_floats(n), device_floats(n), OK};
    for (size_t i = 0; i < n; i++) rows.x[i] = shift + scale * (float)((i * 7919) % 1000) / 1000;
    return rows;
}
static void rows_destroy(struct rows *rows) {
    device_free(rows->x);
    device_free(rows->y);
}

static void run(struct rows *rows, enum simt_order order) {
    struct kernel_run before = kernel_begin(order);
    rows->status = kernel_end(before, softmax_rows(rows->y, rows->x, rows->R, rows->C));
}

/* Bound of y / want - 1. x - m (here up to 16) has a relative error of 2^-24, which exp turns into a relative error of
 * y; the sum of C numbers has an error of at most C 2^-24; exp and the division add some units. */
static const char *first_wrong(const struct rows *rows) {
    static char text[200];
    for (int r = 0; r < rows->R; r++) {
        const float *x = rows->x + (size_t)r * rows->C, *y = rows->y + (size_t)r * rows->C;
        double most = -INFINITY, sum = 0;
        for (int c = 0; c < rows->C; c++) most = fmax(most, (double)x[c]);
        for (int c = 0; c < rows->C; c++) sum += exp((double)x[c] - most);
        for (int c = 0; c < rows->C; c++) {
            double want = exp((double)x[c] - most) / sum;
            if (fabs((double)y[c] - want) <= want * (rows->C + 64) * 0x1p-23) continue;
            snprintf(text, sizeof text, "R=%d C=%d: y[%d,%d] is %.9g, and should be %.9g", rows->R, rows->C, r, c,
                     (double)y[c], want);
            return text;
        }
    }
    return NULL;
}

static void check_rows(struct rows *rows, enum simt_order order) {
    run(rows, order);
    const char *wrong = rows->status == OK ? first_wrong(rows) : NULL;
    enum status status = rows->status;
    rows_destroy(rows);
    assert_ok(status);
    if (wrong) fail_msg("%s", wrong);
}

TEST(test_softmax_equals_fp64_on_every_size) {
    for (int i = 0; i < N_SIZES; i++) {
        struct rows rows = rows_create(sizes[i].R, sizes[i].C, 4, -2);
        check_rows(&rows, SIMT_FORWARD);
    }
}

TEST(test_softmax_of_large_numbers) {
    static const float shifts[] = {1000, -1000};
    for (int i = 0; i < 2; i++)
        for (int C = 1; C < 300; C += 149) {
            struct rows rows = rows_create(3, C, 16, shifts[i]);
            check_rows(&rows, SIMT_FORWARD);
        }
}

/* A causal mask: row r has r + 1 numbers, then -infinity. */
TEST(test_softmax_of_masked_rows) {
    struct rows rows = rows_create(40, 40, 4, 0);
    for (int r = 0; r < 40; r++)
        for (int c = r + 1; c < 40; c++) rows.x[r * 40 + c] = -INFINITY;
    check_rows(&rows, SIMT_FORWARD);
}

TEST(test_softmax_has_the_same_bits_in_both_orders) {
    for (int i = 0; i < N_SIZES; i++) {
        struct rows a = rows_create(sizes[i].R, sizes[i].C, 4, -2), b = rows_create(sizes[i].R, sizes[i].C, 4, -2);
        run(&a, SIMT_FORWARD);
        run(&b, SIMT_REVERSE);
        enum status status = a.status != OK ? a.status : b.status;
        const char *wrong = status == OK ? first_wrong(&b) : NULL;
        bool same = memcmp(a.y, b.y, (size_t)a.R * (size_t)a.C * sizeof *a.y) == 0;
        rows_destroy(&a);
        rows_destroy(&b);
        assert_ok(status);
        if (wrong) fail_msg("in the opposite order: %s", wrong);
        if (!same) fail_msg("R=%d C=%d: threads in the opposite order give other numbers", sizes[i].R, sizes[i].C);
    }
}

/* ---- traffic, without the numbers: a kernel that lacks a barrier can pass, if it reads and writes all bytes ---- */
static struct simt_counts traffic_of(int R, int C) {
    struct rows rows = rows_create(R, C, 4, -2);
    simt_count(1);
    run(&rows, SIMT_FORWARD);
    struct simt_counts n = simt_counts();
    simt_count(0);
    enum status status = rows.status;
    long long all = (long long)R * C * (long long)sizeof *rows.y, read = n.load.bytes, written = n.store.bytes;
    rows_destroy(&rows);
    assert_ok(status);
    assert_true(simt_checked());                             /* other builds count no traffic */
    if (read < all || written < all)
        fail_msg("R=%d C=%d: of %lld bytes %lld are read and %lld written", R, C, all, read, written);
    return n;
}

static void at_most(const char *what, int R, int C, int64_t count, double limit) {
    if ((double)count > limit) fail_msg("R=%d C=%d: %s: %lld; at most %.0f", R, C, what, (long long)count, limit);
}

/* x has R C / 8 sectors. If rows begin at a sector, the limit is 3 times that. If they do not, 32 floats are in 5
 * sectors instead of 4. */
TEST(test_softmax_loads_and_stores_are_coalesced) {
    static const int columns[] = {1024, 999}, slack[] = {4, 5};
    for (int i = 0; i < 2; i++) {
        struct simt_counts n = traffic_of(40, columns[i]);
        double all = 40.0 * columns[i] / 8 * slack[i] / 4 + 40;
        at_most("sectors read", 40, columns[i], n.load.units, 3 * all);
        at_most("sectors written", 40, columns[i], n.store.units, all);
    }
}

TEST(test_softmax_reads_each_number_once) {
    struct simt_counts n = traffic_of(8, 1024);
    at_most("sectors read", 8, 1024, n.load.units, 8 * 1024 / 8);
    n = traffic_of(8, 96);
    at_most("sectors read", 8, 96, n.load.units, 8 * 96 / 8);
}

TEST(test_softmax_has_no_bank_conflicts) {
    struct simt_counts n = traffic_of(8, 1024);
    at_most("wavefronts of shared memory", 8, 1024, n.shared.units, (double)n.shared.requests);
}

TESTS(unit_test(test_softmax_equals_fp64_on_every_size), unit_test(test_softmax_of_large_numbers),
      unit_test(test_softmax_of_masked_rows), unit_test(test_softmax_has_the_same_bits_in_both_orders),
      unit_test(test_softmax_loads_and_stores_are_coalesced), unit_test(test_softmax_reads_each_number_once),
      unit_test(test_softmax_has_no_bank_conflicts))
