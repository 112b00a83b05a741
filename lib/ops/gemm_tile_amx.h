/* A tile of C in AMX's registers, each 16 rows of 64 bytes: for gemm_tile.h, which includes this.
 *
 *   c 0 | c 1        a 4        b 6 | b 7       c += a b
 *   c 2 | c 3        a 5
 *
 *   c: 16 x 16 sums in fp32      a: 16 rows x 32 depths of bf16      b: 16 pairs of depths x 16 columns
 *
 * Idea: TDPBF16PS multiplies a by b in 16 cycles, 16 x 16 x 32 multiply-adds, sixteen times as many per cycle as a
 * vector's FMA. Two by two tiles of C need four loads for four products, so that loads keep up. Rows of A are read where
 * they lie; where A is stored transposed, packing makes rows of it. Of B a panel's 32 columns of 16 pairs lie as the
 * register wants them. The function that matters is tile(), below.
 *
 * The sums of even and of odd depths of a CHUNK start from 0 apart, by FMAs that take and give zero for subnormal
 * numbers; then the two are added, and that to C. So zeros that fill up a chunk change nothing, and there are never
 * fewer depths than 32; for fewer rows the registers are set up shorter.
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS. */
#ifndef TRIVIUM_OPS_GEMM_TILE_AMX_H
#define TRIVIUM_OPS_GEMM_TILE_AMX_H

enum { HALF = 16, TILE_BYTES = 64 };

/* What LDTILECFG reads. */
struct amx_shapes { uint8_t palette, start, reserved[14]; uint16_t row_bytes[16]; uint8_t rows[16]; };

/* Registers for the first `rows` rows of a tile. */
INLINE void set_up(int64_t rows) {
    _Alignas(64) struct amx_shapes s = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        bool lower = i == 2 || i == 3 || i == 5, of_b = i >= 6;
        int64_t n = of_b ? HALF : lower ? rows - HALF : rows < HALF ? rows : HALF;
        s.rows[i] = (uint8_t)(n > 0 ? n : 0), s.row_bytes[i] = n > 0 ? TILE_BYTES : 0;
    }
    _tile_loadconfig(&s);
}

/* A chunk of B, as it is stored, to pairs of depths. */
INLINE void pack_chunk(number *to, const number *b, int64_t b_step) {
#pragma GCC unroll 4
    for (int q = 0; q < CHUNK / TOGETHER; q++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            store(to + q * COLUMNS * TOGETHER + v * LANES * TOGETHER, unit_rows(b + q * b_step + v * LANES, b_step / TOGETHER));
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
    _tile_loadd(5, a + HALF * stride, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* The last depths of A, fewer than a chunk, and zeros. */
INLINE void last_of_a(number to[ROWS][CHUNK], const struct operands *x, int64_t rows, int64_t there) {
    memset(to, 0, sizeof(number) * ROWS * CHUNK);
    for (int64_t i = 0; i < rows; i++) memcpy(to[i], x->a + i * x->a_stride, sizeof(number) * (size_t)there);
}

INLINE void tile(int64_t rows, bool packing, int64_t k, struct operands x, void *restrict c, int64_t ldc,
                 const struct ending *end, const struct ahead *ahead) {
    _Alignas(64) vec sum[ROWS][VECTORS];
    int64_t chunks = k / CHUNK, left = k % CHUNK, first = chunks > rows ? chunks - rows : 0;
    bool two = rows > HALF;
    set_up(rows);
    _tile_zero(0);
    _tile_zero(1);
    if (two) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t l = 0; l < chunks; l++) {
        ask(ahead, l);
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
        _tile_stored(2, sum[HALF], sizeof *sum);
        _tile_stored(3, &sum[HALF][1], sizeof *sum);
    }
    _tile_release();
    finish((int)rows, sum, c, ldc, end);
}

static void tile_plain(int64_t rows, int64_t k, const struct operands *x, void *c, int64_t ldc, const struct ending *end,
                       const struct ahead *ahead) {
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
