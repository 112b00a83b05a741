/* ranks: 1  device: cpu */
/* The tiles' product against three loops, in small whole numbers: exact, whatever the order. Every number of rows and columns around
 * the sizes of its blocks, A as it lies and transposed; and nothing outside of C is touched. */
#define ELEM fp32
#define ELEM_fp32
#include "lib/ops/tile_product.h"
#include "tests/test.h"

enum { MOST = 80, GUARD = 16 };

static float small(int64_t i, int salt) { return (float)((i * 7 + salt) % 11 - 5); }

static void check(int64_t m, int64_t n, int64_t k, bool transposed) {
    static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST + 2 * GUARD], expected[MOST * MOST + 2 * GUARD];
    for (int64_t i = 0; i < m * k; i++) a[i] = small(i, 1);
    for (int64_t i = 0; i < k * n; i++) b[i] = small(i, 2);
    for (int64_t i = 0; i < m * n + 2 * GUARD; i++) c[i] = expected[i] = small(i, 3);
    int64_t row = transposed ? 1 : k, column = transposed ? m : 1;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < k; p++) expected[GUARD + i * n + j] += a[i * row + p * column] * b[p * n + j];
    tile_multiply_add(c + GUARD, m, n, k, a, row, column, b);
    assert_memory_equal(c, expected, (size_t)(m * n + 2 * GUARD) * sizeof *c);
}

static void test_tile_product_is_three_loops(void **state) {
    static const int64_t columns[] = {1, 15, 16, 17, 33, 63, 64, 65, 80};
    (void)state;
    for (int64_t m = 0; m <= 2 * TILE_ROWS + 1; m++)
        for (int j = 0; j < 9; j++)
            for (int64_t k = 0; k < 8; k += k < 2 ? 1 : 5) {
                check(m, columns[j], k, false);
                check(m, columns[j], k, true);
            }
    check(64, 64, 64, false);
}

TESTS(unit_test(test_tile_product_is_three_loops))
