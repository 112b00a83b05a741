/* ranks: 1  device: cpu */
/* The tiles' product against three loops, with small integers, so that every order is exact. Numbers of rows and
 * columns around the sizes of its blocks, every part, A stored by rows and by columns. Memory around C must not
 * change. */
#define ELEM fp32
#define ELEM_fp32
#include "lib/ops/gemm/tile_product.h"
#include "tests/test.h"

enum { MOST = 80, GUARD = 16 };

static float small(int64_t i, int salt) { return (float)((i * 7 + salt) % 11 - 5); }

/* A has the zeros that `part` promises. Elements of C that `part` does not need may be right or unchanged, but nothing
 * else. */
static void check(enum tile_part part, int64_t m, int64_t n, int64_t k, bool transposed) {
    static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST + 2 * GUARD], expected[MOST * MOST + 2 * GUARD];
    int64_t row = transposed ? 1 : k, column = transposed ? m : 1;
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            bool zero = (part == TILE_A_LOWER && p > i) || (part == TILE_A_UPPER && p < i);
            a[i * row + p * column] = zero ? 0 : small(i * k + p, 1);
        }
    for (int64_t i = 0; i < k * n; i++) b[i] = small(i, 2);
    for (int64_t i = 0; i < m * n + 2 * GUARD; i++) c[i] = expected[i] = small(i, 3);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < k; p++) expected[GUARD + i * n + j] += a[i * row + p * column] * b[p * n + j];
    tile_multiply_add(part, NULL, c + GUARD, m, n, k, a, row, column, b);
    for (int64_t i = 0; i < m * n && part == TILE_C_LOWER; i++)
        if (i % n > i / n && c[GUARD + i] == small(GUARD + i, 3)) expected[GUARD + i] = c[GUARD + i];
    assert_memory_equal(c, expected, (size_t)(m * n + 2 * GUARD) * sizeof *c);
}

TEST(test_tile_product_is_three_loops) {
    static const int64_t columns[] = {1, 15, 16, 17, 33, 63, 64, 65, 80};
    for (enum tile_part part = TILE_WHOLE; part <= TILE_A_UPPER; part++) {
        for (int64_t m = 0; m <= 2 * TILE_ROWS + 1; m++)
            for (int j = 0; j < 9; j++)
                for (int64_t k = 0; k < 8; k += k < 2 ? 1 : 5) {
                    check(part, m, columns[j], k, false);
                    check(part, m, columns[j], k, true);
                }
        check(part, 64, 64, 64, false);
        check(part, 64, 64, 64, true);
        check(part, 80, 80, 80, true);
    }
}

/* Prefetch three rows of two arrays after each block: each row once, in order, and no row more. */
TEST(test_tile_product_asks_for_every_row_once) {
    static char one[10 * 100], two[10 * 300];
    static float c[24 * TILE_LANES], a[24], b[TILE_LANES];
    struct tile_ahead x = {.at = {one, two}, .stride = {100, 300}, .bytes = 70, .rows = 10, .n = 2, .each = 3};
    tile_multiply_add(TILE_WHOLE, &x, c, 24, TILE_LANES, 1, a, 1, 1, b);             /* 4 blocks of 6 rows: 12 of 20 */
    assert_true(x.at[0] == one + 600 && x.at[1] == two + 1800 && x.rows == 4);
    tile_multiply_add(TILE_WHOLE, &x, c, 24, TILE_LANES, 1, a, 1, 1, b);
    assert_true(x.at[0] == one + 1000 && x.at[1] == two + 3000 && x.rows == 0);
}

TESTS(unit_test(test_tile_product_is_three_loops), unit_test(test_tile_product_asks_for_every_row_once))
