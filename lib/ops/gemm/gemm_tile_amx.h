/* A tile of C in AMX's registers (amx.h): for gemm_tile.h, which includes this.
 *
 * Rows of A are read where they lie; where A is stored transposed, packing makes rows of it. Of B a panel's 32 columns
 * of 16 pairs lie as the registers want them. The function that matters is tile(), below.
 *
 * Zeros that fill up a CHUNK change nothing, and there are never fewer depths than 32; for fewer rows the registers are
 * set up shorter. */
#ifndef TRIVIUM_OPS_GEMM_TILE_AMX_H
#define TRIVIUM_OPS_GEMM_TILE_AMX_H

#include "lib/ops/gemm/amx.h"

/* A chunk of B, as it is stored, to pairs of depths. */
INLINE void pack_chunk(number *to, const number *b, int64_t b_step) {
#pragma GCC unroll 4
    for (int q = 0; q < CHUNK / TOGETHER; q++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            store(to + q * COLUMNS * TOGETHER + v * LANES * TOGETHER,
                  unit_rows(b + q * b_step + v * LANES, b_step / TOGETHER));
}

/* The sums of a chunk: `stride` is that of A's rows, b is packed. */
INLINE void add_chunk(bool two, const number *a, int64_t stride, const number *b) {
    const size_t a_bytes = (size_t)stride * sizeof *a, b_bytes = COLUMNS * sizeof(unit);
    __asm__ volatile("" ::: "memory"); /* what was packed is in memory; gcc does not know that these loads read it */
    _tile_loadd(6, b, b_bytes);
    _tile_loadd(7, b + LANES * TOGETHER, b_bytes);
    _tile_loadd(4, a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!two) return;
    _tile_loadd(5, a + AMX_HALF * stride, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* The last depths of A, fewer than a chunk, and zeros. */
INLINE void last_of_a(number to[ROWS][CHUNK], const struct operands *x, int64_t rows, int64_t there) {
    memset(to, 0, sizeof(number) * ROWS * CHUNK);
    for (int64_t i = 0; i < rows; i++) memcpy(to[i], x->a + i * x->a_stride, sizeof(number) * (size_t)there);
}

static void before_tiles(void) { amx_set_up(ROWS, COLUMNS, CHUNK / TOGETHER); }
static void after_tiles(void) { _tile_release(); }

/* Rows of A are not asked for: the processor foretells them, and AMX leaves no time for asking. */
INLINE void tile(int64_t rows, bool packing, int64_t k, struct operands x, void *restrict c, int64_t ldc,
                 const struct ending *end, const struct ahead *ahead) {
    _Alignas(64) vec sum[ROWS][VECTORS];
    int64_t chunks = k / CHUNK, left = k % CHUNK, first = chunks > rows ? chunks - rows : 0;
    bool two = rows > AMX_HALF;
    if (rows < ROWS) amx_set_up(rows, COLUMNS, CHUNK / TOGETHER);
    _tile_zero(0);
    _tile_zero(1);
    if (two) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t l = 0; l < chunks; l++) {
        if (ahead->line) __builtin_prefetch(ahead->line + l * ahead->step);
        if (l >= first) ask_for_c(c, l - first, ldc, end);
        if (packing) pack_chunk(x.pack, x.b, x.b_step);
        add_chunk(two, x.a, x.a_stride, packing ? x.pack : x.b);
        x.a += CHUNK, x.b += CHUNK / TOGETHER * x.b_step;
        if (packing) x.pack += CHUNK * COLUMNS;
    }
    if (left) {
        _Alignas(64) number last[ROWS][CHUNK];
        last_of_a(last, &x, rows, left);
        add_chunk(two, last[0], CHUNK, x.b);
    }
    _tile_stored(0, sum[0], sizeof *sum);
    _tile_stored(1, &sum[0][1], sizeof *sum);
    if (two) {
        _tile_stored(2, sum[AMX_HALF], sizeof *sum);
        _tile_stored(3, &sum[AMX_HALF][1], sizeof *sum);
    }
    if (rows < ROWS) before_tiles();
    finish((int)rows, sum, c, ldc, end);
}

static void tile_plain(int64_t rows, int64_t k, const struct operands *x, void *c, int64_t ldc,
                       const struct ending *end, const struct ahead *ahead) {
    tile(rows, false, k, *x, c, ldc, end, ahead);
}
static void tile_packing(int64_t rows, int64_t k, const struct operands *x, void *c, int64_t ldc,
                         const struct ending *end, const struct ahead *ahead) {
    tile(rows, true, k, *x, c, ldc, end, ahead);
}
static inline tile_function *tile_for(const struct operands *x, int64_t rows) {
    return (void)rows, x->pack ? tile_packing : tile_plain;
}

#endif
