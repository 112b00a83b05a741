/* Packing of gemm_packed.h: micro-panels (depth, width) of rows of A or columns of B, zeros where the side ends.
 * gemm_packed.h decides what is packed, when, and by which thread; this file copies, and widens where packed numbers
 * are wider. */
#pragma once

#include "lib/base/integer.h"
#include "lib/ops/gemm/gemm_micro_kernel.h"

/* Rows of A in a block, where threads divide the rows */
enum { MC = (int)MR > 8 ? 64 : 48 };

static int64_t padded(int64_t k) { return round_up(k, KR); }

/* Numbers from one row to the next in a widened micro-panel of A. A line more than the depth, or rows of a depth that
 * is a power of two would share a few lines of the first-level cache. */
static int64_t widened_row(int64_t k) { return round_up(k, LINE) + LINE; }

/* One side of a product: the number of its row or column i at depth p is at[i stride + p step]. Either stride or step
 * is 1. */
struct side { const stored *at; int64_t n, stride, step; };

DEFINE_TRANSPOSE(transpose, vec, lanes, LANES)

/* Clear the last KR depths of a micro-panel, from depth k on. */
static void zero_fill(number *panel, int width, int64_t k) {
    int64_t from = round_up(k, PER_UNIT) * width;
    memset(panel + from, 0, sizeof(number) * (size_t)(padded(k) * width - from));
}

/* Pack NR rows of k numbers each, `stride` apart, to (k, NR). It reads LANES rows at a time, as many streams as the
 * hardware prefetches. */
static void pack_across(number *restrict out, const stored *restrict x, int64_t stride, int64_t k) {
    zero_fill(out, NR, k);
    for (int v = 0; v < VECTORS; v++, x += LANES * stride, out += LANES * PER_UNIT) {
        int64_t p = 0;
        for (; p + LANES * PER_UNIT <= k; p += LANES * PER_UNIT) {
            vec square[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) square[l] = units(x + l * stride + p);
            transpose(square);
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) store(out + (p + l * PER_UNIT) * NR, square[l]);
        }
        for (; p < k; p += PER_UNIT)
            for (int l = 0; l < LANES; l++)
                for (int64_t t = 0; t < PER_UNIT; t++)
                    out[p * NR + l * PER_UNIT + t] = p + t < k ? number_of(x[l * stride + p + t]) : 0;
    }
}

/* The same at the edge, where there are fewer rows than `width`. Simple, not fast. */
static void pack_edge(number *out, int width, const stored *x, const struct side *s, int64_t n, int64_t k) {
    for (int64_t p = 0; p < padded(k); p += PER_UNIT)
        for (int64_t j = 0; j < width; j++)
            for (int64_t t = 0; t < PER_UNIT; t++) {
                bool there = j < n && p + t < k;
                out[p * width + j * PER_UNIT + t] = there ? number_of(x[j * s->stride + (p + t) * s->step]) : 0;
            }
}

/* Pack a unit's rows of `width` numbers. The first `there` rows exist; zeros fill the others. */
INLINE void pack_rows(number *restrict out, int width, const stored *restrict x, int64_t stride, int there) {
    for (int64_t j = 0; j < width; j++)
#pragma GCC unroll 2
        for (int t = 0; t < PER_UNIT; t++) out[j * PER_UNIT + t] = t < there ? number_of(x[t * stride + j]) : 0;
}

/* Pack rows that lie `stride` apart to micro-panels with `width` numbers of each row, `panel` numbers apart. */
INLINE void pack_along(number *restrict out, int width, int64_t panels, int64_t panel, const stored *restrict x,
                       int64_t stride, int64_t k) {
    int64_t p = 0;
    for (int64_t q = 0; q < panels; q++) zero_fill(out + q * panel, width, k);
    for (; p + PER_UNIT <= k; p += PER_UNIT)
#pragma GCC unroll 8
        for (int64_t q = 0; q < panels; q++)
            pack_rows(out + q * panel + p * width, width, x + p * stride + q * width, stride, PER_UNIT);
    for (int64_t q = 0; q < panels && p < k; q++)
        pack_rows(out + q * panel + p * width, width, x + p * stride + q * width, stride, (int)(k - p));
}

/* Pack columns [first, first + n) of B at depths [p, p + k). `rest`: pack only the last, partial micro-panel,
 * because micro-kernels pack the full ones as they compute. */
static void pack_b(number *out, const struct side *b, int64_t first, int64_t n, int64_t p, int64_t k, bool rest) {
    const stored *x = b->at + first * b->stride + p * b->step;
    int64_t full = n / NR, left = n % NR, panel = NR * padded(k);
    for (int64_t q = 0; q < full && !rest; q++) {
        if (b->step == 1)
            pack_across(out + q * panel, x + q * NR * b->stride, b->stride, k);
        else
            pack_along(out + q * panel, NR, 1, panel, x + q * NR, b->step, k);
    }
    if (left) pack_edge(out + full * panel, NR, x + full * NR * b->stride, b, left, k);
}

/* Pack n columns of numbers to rows of padded(k), LANES x LANES units at a time. */
static void pack_to_rows(number *restrict out, const stored *restrict x, int64_t step, int64_t n, int64_t k) {
    int64_t rows = n / LANES * LANES, depths = k / (LANES * PER_UNIT) * (LANES * PER_UNIT), length = padded(k);
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t p = 0; p < depths; p += LANES * PER_UNIT) {
            vec square[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) square[l] = unit_rows(x + i + (p + l * PER_UNIT) * step, step);
            transpose(square);
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) store(out + (i + l) * length + p, square[l]);
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t p = i < rows ? depths : 0; p < length; p++)
            out[i * length + p] = p < k ? number_of(x[i + p * step]) : 0;
}

/* Pack A's rows likewise, where A is stored transposed. */
static void pack_a(number *out, const struct side *a, int64_t first, int64_t n, int64_t p, int64_t k) {
    const stored *x = a->at + first + p * a->step;
    if (A_BY_ROWS) {
        pack_to_rows(out, x, a->step, n, k);
        return;
    }
    int64_t full = n / MR, left = n % MR;
    if (n == MC)
        pack_along(out, MR, MC / MR, MR * padded(k), x, a->step, k);
    else
        pack_along(out, MR, full, MR * padded(k), x, a->step, k);
    if (left) pack_edge(out + full * MR * padded(k), MR, x + full * MR, a, left, k);
}

/* Widen `rows` rows of A, as they are stored, from depth p on. */
static inline void widen_rows(number *restrict out, const struct side *a, int64_t first, int64_t rows, int64_t p,
                              int64_t k) {
    for (int64_t i = 0; i < rows; i++, out += widened_row(k)) {
        const stored *x = a->at + (first + i) * a->stride + p;
        int64_t q = 0;
        for (; q + LANES <= k; q += LANES) store(out + q, widen(x + q));
        for (; q < k; q++) out[q] = number_of(x[q]);
    }
}
