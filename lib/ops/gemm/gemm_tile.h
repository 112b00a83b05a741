/* A tile of C in vector registers, for gemm_packed.h, and how many rows and columns it has on this machine. (Or, where
 * what includes this says GEMM_AMX, in AMX's registers: gemm_tile_amx.h.)
 *
 * Who includes this says before what the product is made of, includes gemm_vector.h, and says how that is computed
 * with:
 *
 *   number        of A, B and bias as they are stored
 *   TOGETHER      of them, neighbours in depth, are a unit of 32 bits: an fp32 number, or two of bf16
 *   unit          32 bits
 *
 *   multiply_add  sum + a b, in fp32: in each lane of b a unit
 *   unit_rows     a vector of units from TOGETHER rows of numbers, `stride` apart
 *   widen, narrow a vector's lanes from and to stored numbers */
#ifndef TRIVIUM_OPS_GEMM_TILE_H
#define TRIVIUM_OPS_GEMM_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The tile, by the registers that there are: accumulators, a row of B, and one of A. CHUNK: numbers of depth that are
 * multiplied at once; what is packed has whole chunks. A_BY_ROWS: packed panels of A are rows too, not (depth,
 * ROWS). */
#if defined GEMM_AMX
enum { ROWS = 32, VECTORS = 2, CHUNK = 32, A_BY_ROWS = 1 };
#elif VECTOR_REGISTERS == 32
enum { ROWS = 8, VECTORS = 3 };                      /* 24 + 3 + 1 */
#else
enum { ROWS = 4, VECTORS = 3 };                      /* 12 + 3 + 1: of such blocks the one with the fewest loads */
#endif
#if !defined GEMM_AMX
enum { CHUNK = TOGETHER, A_BY_ROWS = 0 };
#endif
enum {
    COLUMNS = LANES * VECTORS,
    LINE = 64 / sizeof(number),                      /* numbers in a line of the caches */
    SOON = 16,                                       /* lines of depth before a tile's end it has asked for its part of
                                                      * C, if it is deep enough */
};

/* Where a tile reads: unit p of row i of A at a[i a_stride + p a_step], row p of B's units at b + p b_step. a_step is
 * TOGETHER where A lies by rows, of which there may be fewer than ROWS, and more where it is packed. A panel of B that
 * is not packed yet is packed on the way: the tile leaves what it has read in `pack`. That costs stores only (and of
 * pairs their making), for which the arithmetic leaves room. */
struct operands {
    const number *a;
    int64_t a_stride, a_step;
    const number *b;
    int64_t b_step;
    number *pack;
};

/* What becomes of a sum: c = alpha sum + bias + beta c. wide: C is fp32; else it is made of numbers. */
struct ending { float alpha, beta; const number *bias; bool wide; };

/* What a tile asks for while it is made, so that it is near when it is wanted: every LINE depths a line of each of ROWS
 * rows of A (the next panel), and one line of what is packed next. NULL: nothing. Little by little, for whatever is
 * asked for in a heap holds up B. */
struct ahead { const number *rows; int64_t stride; const number *line; int64_t step; };

INLINE void ask(const struct ahead *x, int64_t lines) {
    if (x->rows)
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) __builtin_prefetch(x->rows + i * x->stride + lines * LINE);
    if (x->line) __builtin_prefetch(x->line + lines * x->step);
}

/* A unit of A, of which only `there` numbers may be there: the others are zero. */
INLINE unit unit_at(const number *x, int there) {
    unit u = 0;
    memcpy(&u, x, (size_t)there * sizeof(number));
    return u;
}

/* LANES elements of C from the i-th on */
INLINE vec c_at(const void *c, int64_t i, bool wide) {
    return wide ? load((const float *)c + i) : widen((const number *)c + i);
}
INLINE void c_set(void *c, int64_t i, bool wide, vec x) {
    if (wide)
        store((float *)c + i, x);
    else
        narrow((number *)c + i, x);
}
INLINE int64_t c_size(const struct ending *end) { return end->wide ? (int64_t)sizeof(float) : (int64_t)sizeof(number); }

/* Row `i` of the tile's part of C, prefetched. */
INLINE void ask_for_c(const void *c, int64_t i, int64_t ldc, const struct ending *end) {
#pragma GCC unroll 3
    for (int64_t j = 0; j < COLUMNS * c_size(end); j += 64)
        __builtin_prefetch((const char *)c + i * ldc * c_size(end) + j, 1);
}

/* From sums to C. */
INLINE void finish(int rows, vec sum[ROWS][VECTORS], void *restrict c, int64_t ldc, const struct ending *end) {
    if (end->alpha != 1)                             /* apart, so that no compiler makes one rounding of this and the
                                                      * next in some tiles only */
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++) sum[i][v] *= end->alpha;
    float beta = end->beta;
    const number *bias = end->bias;
    bool wide = end->wide;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) {
            vec y = sum[i][v];
            if (bias) y += widen(bias + v * LANES);
            if (beta != 0) y += beta * c_at(c, i * ldc + v * LANES, wide);
            c_set(c, i * ldc + v * LANES, wide, y);
        }
}

/* A thread calls before_tiles before its first tile and after_tiles after its last.
 * Makes `rows` rows; where A is packed in units, all ROWS. */
typedef void tile_function(int64_t rows, int64_t k, const struct operands *, void *c, int64_t ldc,
                           const struct ending *, const struct ahead *);

#if defined GEMM_AMX
#include "lib/ops/gemm/gemm_tile_amx.h"
#else

/* The sums at one unit of depth: a row of B, and ROWS units of A. Rows of A from ROWS / 2 on have a base of their own:
 * eight are more than addresses reach from one. */
INLINE void add_products(vec sum[ROWS][VECTORS], int rows, bool packing, int there, const number *lower,
                         const struct operands *x) {
    vec row[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++)
        row[v] = packing ? unit_rows(x->b + v * LANES, x->b_step / TOGETHER) : load(x->b + v * LANES * TOGETHER);
    if (packing)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) store(x->pack + v * LANES * TOGETHER, row[v]);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        unit a = unit_at(i < ROWS / 2 ? x->a + i * x->a_stride : lower + (i - ROWS / 2) * x->a_stride, there);
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[i][v] = multiply_add(sum[i][v], a, row[v]);
    }
}

/* To the next depth. */
INLINE void step(struct operands *x, const number **lower) {
    x->a += x->a_step, *lower += x->a_step, x->b += x->b_step;
    if (x->pack) x->pack += COLUMNS * TOGETHER;
}

/* rows x COLUMNS of C. Called with constant rows, so that sums are registers. */
INLINE void tile(int rows, bool packing, int64_t k, struct operands x, void *restrict c, int64_t ldc,
                 const struct ending *end, const struct ahead *ahead) {
    vec sum[ROWS][VECTORS];
    const number *lower = x.a + ROWS / 2 * x.a_stride;
    int64_t lines = k / LINE, first = lines > rows + SOON ? lines - rows - SOON : 0, p = lines * LINE;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[i][v] = (vec){0};
    for (int64_t l = 0; l < lines; l++) {
        ask(ahead, l);
        if (l >= first && l < first + rows) ask_for_c(c, l - first, ldc, end);
#pragma GCC unroll 4
        for (int q = 0; q < LINE / TOGETHER; q++, step(&x, &lower))
            add_products(sum, rows, packing, TOGETHER, lower, &x);
    }
    for (; p + TOGETHER <= k; p += TOGETHER, step(&x, &lower)) add_products(sum, rows, packing, TOGETHER, lower, &x);
    if (p < k) add_products(sum, rows, packing, (int)(k - p), lower, &x);
    finish(rows, sum, c, ldc, end);
}

static inline void before_tiles(void) {}
static inline void after_tiles(void) {}

/* The kinds of tile. What is constant in one is written out, so that it is constant in the code too. */
#define TILE(name, rows, packing, ...) \
    static void name(int64_t n, int64_t k, const struct operands *x, void *c, int64_t ldc, const struct ending *end, \
                     const struct ahead *ahead) { \
        (void)n; \
        tile(rows, packing, k, (struct operands)__VA_ARGS__, c, ldc, end, ahead); \
    }
#define TILE_OF(rows) TILE(tile_##rows, rows, false, {x->a, x->a_stride, TOGETHER, x->b, COLUMNS * TOGETHER, NULL})
/* A by rows. */
TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4)
#if VECTOR_REGISTERS == 32
/* Where a tile has eight. */
TILE_OF(5) TILE_OF(6) TILE_OF(7) TILE_OF(8)
static tile_function *const tile_by_rows[ROWS + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7,
                                                      tile_8};
#else
static tile_function *const tile_by_rows[ROWS + 1] = {NULL, tile_1, tile_2, tile_3, tile_4};
#endif
TILE(tile_of_packed, ROWS, false, {x->a, TOGETHER, ROWS * TOGETHER, x->b, COLUMNS * TOGETHER, NULL})
TILE(tile_packing, ROWS, true, {x->a, x->a_stride, TOGETHER, x->b, x->b_step, x->pack})
TILE(tile_of_packed_packing, ROWS, true, {x->a, TOGETHER, ROWS * TOGETHER, x->b, x->b_step, x->pack})

/* rows: of the tile, where A lies by rows and nothing is packed; the other kinds make all ROWS. */
static inline tile_function *tile_for(const struct operands *x, int64_t rows) {
    bool packed = x->a_step != TOGETHER;
    if (x->pack) return packed ? tile_of_packed_packing : tile_packing;
    return packed ? tile_of_packed : tile_by_rows[rows];
}

#endif

#endif
