/* The product of two small dense matrices, for tiles that lie in a core's cache:
 *
 *   c[i,j] += sum_p a[i,p] b[p,j]        c (m,n), b (k,n) dense; a[i,p] at a[i a_row + p a_column]
 *
 * Idea: a block of c, ROWS x STRIP, stays in registers while p runs. For each p it takes STRIP loads of b, which serve all rows,
 * and ROWS broadcasts of a, which cost nothing: an FMA takes its factor from memory. So 4 loads go with 24 multiply-adds, and the
 * arithmetic is the limit. With 32 registers (AVX-512, SVE) 6 x 4 accumulators, 4 of b and one spare are in use.
 *
 * Written with gcc's vectors of 64 bytes, which the compiler splits where the machine's are shorter.
 * Source: Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", section 4 (the inner kernel). */
#ifndef TRIVIUM_OPS_TILE_PRODUCT_H
#define TRIVIUM_OPS_TILE_PRODUCT_H

#include "lib/ops/real.h"

typedef real tile_vec __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));
enum { TILE_LANES = 64 / sizeof(real), TILE_ROWS = 6, TILE_STRIP = 4 };

#define TILE_INLINE static inline __attribute__((always_inline))

/* rows x (vectors * TILE_LANES) of c. Called with constants, so that the accumulators are registers. */
TILE_INLINE void tile_block(int rows, int vectors, real *restrict c, int64_t n, int64_t k, const real *restrict a,
                            int64_t a_row, int64_t a_column, const real *restrict b) {
    tile_vec sum[TILE_ROWS][TILE_STRIP];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[i][v] = *(const tile_vec *)(c + i * n + v * TILE_LANES);
    for (int64_t p = 0; p < k; p++) {
        tile_vec row[TILE_STRIP];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) row[v] = *(const tile_vec *)(b + p * n + v * TILE_LANES);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[i][v] += a[i * a_row + p * a_column] * row[v];
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) *(tile_vec *)(c + i * n + v * TILE_LANES) = sum[i][v];
}

/* All rows of `vectors` vectors of columns. */
TILE_INLINE void tile_strip(int vectors, real *restrict c, int64_t m, int64_t n, int64_t k, const real *restrict a,
                            int64_t a_row, int64_t a_column, const real *restrict b) {
    int64_t i = 0;
    for (; i + TILE_ROWS <= m; i += TILE_ROWS)
        tile_block(TILE_ROWS, vectors, c + i * n, n, k, a + i * a_row, a_row, a_column, b);
    c += i * n, a += i * a_row;
    switch (m - i) {
    case 5: tile_block(5, vectors, c, n, k, a, a_row, a_column, b); break;
    case 4: tile_block(4, vectors, c, n, k, a, a_row, a_column, b); break;
    case 3: tile_block(3, vectors, c, n, k, a, a_row, a_column, b); break;
    case 2: tile_block(2, vectors, c, n, k, a, a_row, a_column, b); break;
    case 1: tile_block(1, vectors, c, n, k, a, a_row, a_column, b); break;
    default: break;
    }
}

/* What is left of the columns when TILE_LANES does not divide n: no hurry. */
static inline void tile_edge(real *restrict c, int64_t m, int64_t n, int64_t columns, int64_t k, const real *restrict a,
                             int64_t a_row, int64_t a_column, const real *restrict b) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < columns; j++) c[i * n + j] += a[i * a_row + p * a_column] * b[p * n + j];
}

static void tile_multiply_add(real *restrict c, int64_t m, int64_t n, int64_t k, const real *restrict a, int64_t a_row,
                              int64_t a_column, const real *restrict b) {
    int64_t j = 0;
    for (; j + TILE_STRIP * TILE_LANES <= n; j += TILE_STRIP * TILE_LANES)
        tile_strip(TILE_STRIP, c + j, m, n, k, a, a_row, a_column, b + j);
    for (; j + TILE_LANES <= n; j += TILE_LANES) tile_strip(1, c + j, m, n, k, a, a_row, a_column, b + j);
    if (j < n) tile_edge(c + j, m, n, n - j, k, a, a_row, a_column, b + j);
}

#endif
