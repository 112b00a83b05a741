/* The product of two small dense matrices, for tiles that lie in a core's cache:
 *
 *   c[i,j] += sum_p a[i,p] b[p,j]        c (m,n), b (k,n) dense; a[i,p] at a[i a_row + p a_column]
 *
 * Idea: a block of c, ROWS x STRIP, stays in registers while p runs. For each p it takes STRIP loads of b, which serve
 * all rows, and ROWS broadcasts of a. With 32 registers (AVX-512, NEON) a block has 6 x 4 sums: 4 loads and 6
 * broadcasts go with 24 multiply-adds, and the arithmetic is the limit. With 16 (AVX2) it has 6 x 2 sums, 2 vectors of
 * b, one of a and one spare register: 8 loads go with 12 multiply-adds, which keeps pace with two multiply-adds per
 * cycle. If the sums do not fit into registers, the compiler puts them on the stack, and the block takes ten times as
 * long.
 *
 * In diagonal tiles of causal attention, half of a product is known to be zero or is never read. Blocks that are wholly
 * in this half are left out: enum tile_part.
 *
 * Written with gcc's vectors, as long as the machine's (vector.h). Source: Goto and van de Geijn 2008, "Anatomy of
 * High-Performance Matrix Multiplication", section 4 (the inner kernel). */
#pragma once

#include "lib/ops/real.h"
#include "lib/ops/vector.h"

typedef real tile_vec __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
enum { TILE_LANES = VECTOR_BYTES / sizeof(real), TILE_ROWS = 6, TILE_STRIP = VECTOR_REGISTERS == 32 ? 4 : 2 };

/* The part of a product to compute. */
enum tile_part {
    TILE_WHOLE,
    TILE_C_LOWER,        /* c[i,j] for j <= i is wanted; other elements become right or stay */
    TILE_A_LOWER,        /* a[i,p] is 0 for p > i */
    TILE_A_UPPER,        /* a[i,p] is 0 for p < i */
};

/* Prefetches during products: the same rows of up to TILE_ARRAYS arrays, each row `bytes` long. `each` rows are
 * prefetched after every block of a product, until all are. */
enum { TILE_ARRAYS = 8 };
struct tile_ahead { const char *at[TILE_ARRAYS]; int64_t stride[TILE_ARRAYS], bytes, rows; int n, each, array; };

static inline void tile_ask(struct tile_ahead *x) {
    for (int i = 0; i < x->each && x->rows > 0; i++) {
        for (int64_t byte = 0; byte < x->bytes; byte += 64) __builtin_prefetch(x->at[x->array] + byte);
        x->at[x->array] += x->stride[x->array];
        if (++x->array == x->n) x->array = 0, x->rows--;
    }
}

#define TILE_INLINE static inline __attribute__((always_inline))

/* Compute rows x (vectors * TILE_LANES) of c. Called with constants, so that the accumulators are registers. */
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

static inline int64_t tile_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Compute all rows of `vectors` vectors of columns, from column j on. */
TILE_INLINE void tile_strip(int vectors, int64_t j, enum tile_part part, struct tile_ahead *ahead, real *restrict c,
                            int64_t m, int64_t n, int64_t k, const real *restrict a, int64_t a_row, int64_t a_column,
                            const real *restrict b) {
    for (int64_t i = 0; i < m; i += TILE_ROWS) {
        int64_t rows = tile_smaller(TILE_ROWS, m - i), from = part == TILE_A_UPPER ? tile_smaller(i, k) : 0;
        int64_t to = part == TILE_A_LOWER ? tile_smaller(i + rows, k) : k;
        int64_t needed =
            part == TILE_C_LOWER ? tile_smaller((i + rows - j + TILE_LANES - 1) / TILE_LANES, vectors) : vectors;
        real *to_c = c + i * n + j;
        const real *from_a = a + i * a_row + from * a_column, *from_b = b + from * n + j;
        if (i + rows <= j && part == TILE_C_LOWER) continue;
#define TILE_BLOCK(rows, vectors) tile_block(rows, vectors, to_c, n, to - from, from_a, a_row, a_column, from_b)
        if (rows == TILE_ROWS)
            switch (needed) {
            case 1: TILE_BLOCK(TILE_ROWS, 1); break;
            case 2: TILE_BLOCK(TILE_ROWS, vectors < 2 ? vectors : 2); break;
            case 3: TILE_BLOCK(TILE_ROWS, vectors < 3 ? vectors : 3); break;
            default: TILE_BLOCK(TILE_ROWS, vectors);
            }
        else
            switch (rows) {
            case 5: TILE_BLOCK(5, vectors); break;
            case 4: TILE_BLOCK(4, vectors); break;
            case 3: TILE_BLOCK(3, vectors); break;
            case 2: TILE_BLOCK(2, vectors); break;
            default: TILE_BLOCK(1, vectors);
            }
#undef TILE_BLOCK
        if (ahead) tile_ask(ahead);
    }
}

/* Compute the remaining columns, if TILE_LANES does not divide n. Not optimised. */
static inline void tile_edge(real *restrict c, int64_t m, int64_t n, int64_t columns, int64_t k, const real *restrict a,
                             int64_t a_row, int64_t a_column, const real *restrict b) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < columns; j++) c[i * n + j] += a[i * a_row + p * a_column] * b[p * n + j];
}

static void tile_multiply_add(enum tile_part part, struct tile_ahead *ahead, real *restrict c, int64_t m, int64_t n,
                              int64_t k, const real *restrict a, int64_t a_row, int64_t a_column,
                              const real *restrict b) {
    int64_t j = 0;
    for (; j + TILE_STRIP * TILE_LANES <= n; j += TILE_STRIP * TILE_LANES)
        tile_strip(TILE_STRIP, j, part, ahead, c, m, n, k, a, a_row, a_column, b);
    for (; j + TILE_LANES <= n; j += TILE_LANES) tile_strip(1, j, part, ahead, c, m, n, k, a, a_row, a_column, b);
    if (j < n) tile_edge(c + j, m, n, n - j, k, a, a_row, a_column, b + j);
}
