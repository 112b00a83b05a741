/* ranks: 1  device: cpu */
/* The tiles' product of bf16 pairs against loops, with small integers, so that every order is exact. Numbers of rows
 * and columns around the sizes of its blocks, by vectors, and by AMX if the CPU has it. Memory around C must not
 * change. Also the two packings of fp32 numbers, at every length. */
#include "lib/device/dtype.h"
#include "lib/ops/attention/attention.h"
#include "tests/test.h"

#if ATTENTION_DOTS
#include "lib/ops/gemm/tile_dot.h"

enum { MOST = 80, GUARD = 16 };

static int small(int64_t i, int salt) { return (int)((i * 7 + salt) % 11) - 5; }
static bf16_pair small_pair(int64_t i, int salt) {
    return pair_of(bf16_from_float((float)small(2 * i, salt)), bf16_from_float((float)small(2 * i + 1, salt)));
}

typedef void dot_function(float *restrict c, int64_t m, int64_t n, int64_t pairs, const bf16_pair *restrict a,
                          const bf16_pair *restrict b);

static void check(dot_function *dot, int64_t m, int64_t n, int64_t pairs) {
    static bf16_pair a[MOST * MOST], b[MOST * MOST];
    static float c[MOST * MOST + 2 * GUARD], expected[MOST * MOST + 2 * GUARD];
    for (int64_t i = 0; i < m * pairs; i++) a[i] = small_pair(i, 1);
    for (int64_t i = 0; i < pairs * n; i++) b[i] = small_pair(i, 2);
    for (int64_t i = 0; i < m * n + 2 * GUARD; i++) c[i] = expected[i] = (float)small(i, 3);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < 2 * pairs; p++)
                expected[GUARD + i * n + j] +=
                    (float)(small(2 * (i * pairs + p / 2) + p % 2, 1) * small(2 * (p / 2 * n + j) + p % 2, 2));
    dot(c + GUARD, m, n, pairs, a, b);
    assert_memory_equal(c, expected, (size_t)(m * n + 2 * GUARD) * sizeof *c);
}

static void check_shapes(dot_function *dot) {
    static const int64_t columns[] = {1, 15, 16, 17, 32, 33, 48, 63, 64, 65, 80},
                         depths[] = {0, 1, 6, 16, 17, 24, 32, 48};
    for (int64_t m = 0; m <= 2 * DOT_ROWS + 1; m++)
        for (int j = 0; j < 11; j++)
            for (int p = 0; p < 8; p++) check(dot, m, columns[j], depths[p]);
    for (int64_t m = 15; m <= 65; m += m < 18 ? 1 : 15)     /* 15 .. 18, 33, 48, 63 */
        for (int j = 0; j < 11; j++) check(dot, m, columns[j], 32);
    check(dot, 64, 64, 32);
}

TEST(test_tile_dot_is_three_loops) {
    check_shapes(dot_by_vectors);
    check_shapes(tile_dot_add);
}

static float third(int64_t i) { return (float)small(i, 1) / 3; }
static uint16_t rounded_third(int64_t i, bool there) { return there ? bf16_from_float(third(i)) : 0; }

/* Thirds, which bf16 rounds. Memory before and after the result must not change. */
TEST(test_pairs_are_rounded_neighbors) {
    for (int64_t n = 1; n <= 40; n++) {
        float x[40];
        bf16_pair row[24];
        for (int64_t i = 0; i < n; i++) x[i] = third(i);
        memset(row, 0x5a, sizeof row);
        pairs_of_row(row + 2, x, n);
        for (int64_t p = -2; p < (n + 1) / 2 + 2; p++) {
            bool inside = p >= 0 && p < (n + 1) / 2;
            bf16_pair expected =
                inside ? pair_of(rounded_third(2 * p, true), rounded_third(2 * p + 1, 2 * p + 1 < n)) : 0x5a5a5a5a;
            assert_int_equal(row[p + 2], expected);
        }
    }
}

TEST(test_pairs_of_columns_are_transposed) {
    static float x[70 * 40];
    static bf16_pair to[35 * 40 + 2];
    for (int64_t i = 0; i < 70 * 40; i++) x[i] = third(i);
    for (int64_t rows = 1; rows <= 70; rows += rows < 4 || rows > 60 ? 1 : 7)
        for (int64_t n = 1; n <= 40; n += 3) {
            int64_t pairs = (rows + 1) / 2;
            memset(to, 0x5a, sizeof to);
            pairs_of_columns(to + 1, x, rows, n);
            assert_int_equal(to[0], 0x5a5a5a5a);
            assert_int_equal(to[1 + pairs * n], 0x5a5a5a5a);
            for (int64_t j = 0; j < n; j++)
                for (int64_t p = 0; p < pairs; p++) {
                    bf16_pair expected = pair_of(rounded_third(2 * p * n + j, true),
                                                 rounded_third((2 * p + 1) * n + j, 2 * p + 1 < rows));
                    assert_int_equal(to[1 + j * pairs + p], expected);
                }
        }
}

TESTS(unit_test(test_tile_dot_is_three_loops), unit_test(test_pairs_are_rounded_neighbors),
      unit_test(test_pairs_of_columns_are_transposed))
#else
TEST(test_tile_dot_wants_a_cpu_that_multiplies_bf16) {
    skip();
}
TESTS(unit_test(test_tile_dot_wants_a_cpu_that_multiplies_bf16))
#endif
