/* ranks: 1  device: cpu */
/* The tiles' product of bf16 pairs against loops, in small whole numbers: exact, whatever the order. Every number of rows and columns
 * around the sizes of its blocks, both places of a pair, A as it lies and transposed; nothing outside of C is touched. And the two
 * packings of fp32 numbers, at every length. */
#include "lib/device/dtype.h"
#include "lib/ops/attention.h"
#include "tests/test.h"

#if ATTENTION_DOTS
#include "lib/ops/tile_dot.h"

enum { MOST = 80, GUARD = 16 };

static int small(int64_t i, int salt) { return (int)((i * 7 + salt) % 11) - 5; }
static bf16_pair small_pair(int64_t i, int salt) {
    return pair_of(bf16_from_float((float)small(2 * i, salt)), bf16_from_float((float)small(2 * i + 1, salt)));
}

static void check(int64_t m, int64_t n, int64_t pairs, bool transposed) {
    static bf16_pair a[MOST * MOST], b[MOST * MOST];
    static float c[MOST * MOST + 2 * GUARD], expected[MOST * MOST + 2 * GUARD];
    for (int64_t i = 0; i < m * pairs; i++) a[i] = small_pair(i, 1);
    for (int64_t i = 0; i < pairs * n; i++) b[i] = small_pair(i, 2);
    for (int64_t i = 0; i < m * n + 2 * GUARD; i++) c[i] = expected[i] = (float)small(i, 3);
    int64_t row = transposed ? 1 : pairs, column = transposed ? m : 1;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < 2 * pairs; p++)
                expected[GUARD + i * n + j] += (float)(small(2 * (i * row + p / 2 * column) + p % 2, 1) * small(2 * (p / 2 * n + j) + p % 2, 2));
    tile_dot_add(c + GUARD, m, n, pairs, a, row, column, b);
    assert_memory_equal(c, expected, (size_t)(m * n + 2 * GUARD) * sizeof *c);
}

static void test_tile_dot_is_three_loops(void **state) {
    static const int64_t columns[] = {1, 15, 16, 17, 33, 63, 64, 65, 80};
    (void)state;
    for (int64_t m = 0; m <= 2 * DOT_ROWS + 1; m++)
        for (int j = 0; j < 9; j++)
            for (int64_t pairs = 0; pairs < 8; pairs += pairs < 2 ? 1 : 5) {
                check(m, columns[j], pairs, false);
                check(m, columns[j], pairs, true);
            }
    check(64, 64, 32, false);
}

/* Thirds, which bf16 has to round; the numbers before and after stay. */
static void test_pairs_are_rounded_neighbours(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 40; n++) {
        float x[40], y[40];
        bf16_pair row[24], columns[44], lone[44];
        for (int64_t i = 0; i < n; i++) x[i] = (float)small(i, 1) / 3, y[i] = (float)small(i, 2) / 3;
        memset(row, 0x5a, sizeof row), memset(columns, 0x5a, sizeof columns), memset(lone, 0x5a, sizeof lone);
        pairs_of_row(row + 2, x, n);
        pairs_of_columns(columns + 2, x, y, n);
        pairs_of_columns(lone + 2, x, NULL, n);
        for (int64_t i = -2; i < n + 2; i++) {
            bool inside = i >= 0 && i < n;
            assert_int_equal(columns[i + 2], inside ? pair_of(bf16_from_float(x[i]), bf16_from_float(y[i])) : 0x5a5a5a5a);
            assert_int_equal(lone[i + 2], inside ? bf16_from_float(x[i]) : 0x5a5a5a5a);
        }
        for (int64_t p = -2; p < (n + 1) / 2 + 2; p++) {
            bool inside = p >= 0 && p < (n + 1) / 2;
            uint16_t second = inside && 2 * p + 1 < n ? bf16_from_float(x[2 * p + 1]) : 0;
            assert_int_equal(row[p + 2], inside ? pair_of(bf16_from_float(x[2 * p]), second) : 0x5a5a5a5a);
        }
    }
}

TESTS(unit_test(test_tile_dot_is_three_loops), unit_test(test_pairs_are_rounded_neighbours))
#else
static void test_tile_dot_wants_a_cpu_that_multiplies_bf16(void **state) {
    (void)state;
    skip();
}
TESTS(unit_test(test_tile_dot_wants_a_cpu_that_multiplies_bf16))
#endif
