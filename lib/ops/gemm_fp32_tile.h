/* A tile of C in registers, for gemm_fp32.c, and how many rows and columns it has on this machine. See gemm_fp32.h. */
#ifndef TRIVIUM_OPS_GEMM_FP32_TILE_H
#define TRIVIUM_OPS_GEMM_FP32_TILE_H

#include "lib/ops/transpose.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tile, by the registers that there are: accumulators, a row of B, and one of A. */
#if defined __AVX512F__ || defined __aarch64__
enum { ROWS = 8, VECTORS = 3 };                      /* 32 registers: 24 + 3 + 1 */
#else
enum { ROWS = 6, VECTORS = 2 };                      /* 16 registers: 12 + 2 + 1 */
#endif
enum {
    LANES = VECTOR_BYTES / sizeof(float),
    COLUMNS = LANES * VECTORS,
    LINE = 16,                                       /* numbers in a line of the caches */
    SOON = 16,                                       /* lines of depth before a tile's end it has asked for its part of C, if it is deep enough */
};

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Where a tile reads: a[i,p] at a[i a_stride + p a_step], row p of B at b + p b_step. a_step is 1 where A lies by rows, of which there may be
 * fewer than ROWS, and ROWS where it is packed. A panel of B that is not packed yet is packed on the way: the tile leaves what it has read in
 * `pack`. That costs stores only, for which the arithmetic leaves room. */
struct operands {
    const float *a;
    int64_t a_stride, a_step;
    const float *b;
    int64_t b_step;
    float *pack;
};

/* What becomes of a sum: c = alpha sum + bias + beta c. */
struct ending { float alpha, beta; const float *bias; };

/* What a tile asks for while it is made, so that it is near when it is wanted: every LINE depths a line of each of ROWS rows of A (the
 * next panel), and one line of what is packed next. NULL: nothing. Little by little, for whatever is asked for in a heap holds up B. */
struct ahead { const float *rows; int64_t stride; const float *line; int64_t step; };

INLINE void ask(const struct ahead *x, int64_t lines) {
    if (x->rows)
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) __builtin_prefetch(x->rows + i * x->stride + lines * LINE);
    if (x->line) __builtin_prefetch(x->line + lines * x->step);
}

/* The sums at one depth: a row of B, and ROWS numbers of A. Rows of A from ROWS / 2 on have a base of their own: eight are more than
 * addresses reach from one. */
INLINE void add_products(vec sum[ROWS][VECTORS], int rows, const float *lower, const struct operands *x) {
    vec row[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) row[v] = *(const loose_vec *)(x->b + v * LANES);
    if (x->pack)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) *(loose_vec *)(x->pack + v * LANES) = row[v];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            sum[i][v] += (i < ROWS / 2 ? x->a[i * x->a_stride] : lower[(i - ROWS / 2) * x->a_stride]) * row[v];
}

/* To the next depth. */
INLINE void step(struct operands *x, const float **lower) {
    x->a += x->a_step, *lower += x->a_step, x->b += x->b_step;
    if (x->pack) x->pack += COLUMNS;
}

/* rows x COLUMNS of C. Called with constant rows, so that sums are registers. */
INLINE void tile(int rows, int64_t k, struct operands x, float *restrict c, int64_t ldc, const struct ending *end, const struct ahead *ahead) {
    vec sum[ROWS][VECTORS];
    const float *lower = x.a + ROWS / 2 * x.a_stride;
    int64_t lines = k / LINE, ask_for_c = lines > rows + SOON ? lines - rows - SOON : 0;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[i][v] = (vec){0};
    for (int64_t l = 0; l < lines; l++) {
        ask(ahead, l);
        if (l >= ask_for_c && l < ask_for_c + rows)
#pragma GCC unroll 3
            for (int j = 0; j < COLUMNS; j += LINE) __builtin_prefetch(c + (l - ask_for_c) * ldc + j, 1);
#pragma GCC unroll 4
        for (int q = 0; q < LINE; q++, step(&x, &lower)) add_products(sum, rows, lower, &x);
    }
    for (int64_t p = lines * LINE; p < k; p++, step(&x, &lower)) add_products(sum, rows, lower, &x);
    if (end->alpha != 1)                             /* apart, so that no compiler makes one rounding of this and the next in some tiles only */
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++) sum[i][v] *= end->alpha;
    float beta = end->beta;
    const float *bias = end->bias;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) {
            loose_vec *to = (loose_vec *)(c + i * ldc + v * LANES);
            vec y = sum[i][v];
            if (bias) y += *(const loose_vec *)(bias + v * LANES);
            if (beta != 0) y += beta * *to;
            *to = y;
        }
}

/* The kinds of tile. What is constant in one is written out, so that it is constant in the code too. */
typedef void tile_function(int64_t k, const struct operands *, float *c, int64_t ldc, const struct ending *, const struct ahead *);
#define TILE(name, rows, ...)                                                                                                            \
    static void name(int64_t k, const struct operands *x, float *c, int64_t ldc, const struct ending *end, const struct ahead *ahead) {      \
        tile(rows, k, (struct operands)__VA_ARGS__, c, ldc, end, ahead);                                                                 \
    }
#define TILE_OF(rows) TILE(tile_##rows, rows, {x->a, x->a_stride, 1, x->b, COLUMNS, NULL})
/* A by rows. */
TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6)
#if defined __AVX512F__ || defined __aarch64__
/* Where a tile has eight. */
TILE_OF(7) TILE_OF(8)
static tile_function *const tile_by_rows[ROWS + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8};
#else
static tile_function *const tile_by_rows[ROWS + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
#endif
TILE(tile_of_packed, ROWS, {x->a, 1, ROWS, x->b, COLUMNS, NULL})
TILE(tile_packing, ROWS, {x->a, x->a_stride, 1, x->b, x->b_step, x->pack})
TILE(tile_of_packed_packing, ROWS, {x->a, 1, ROWS, x->b, x->b_step, x->pack})

/* rows: of the tile, where A lies by rows and nothing is packed; the other kinds make all ROWS. */
static inline tile_function *tile_for(const struct operands *x, int64_t rows) {
    bool packed = x->a_step != 1;
    if (x->pack) return packed ? tile_of_packed_packing : tile_packing;
    return packed ? tile_of_packed : tile_by_rows[rows];
}

#endif
