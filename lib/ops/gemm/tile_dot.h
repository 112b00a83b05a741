/* The product of two small matrices of bf16, summed in fp32, for tiles that lie in a core's cache, on CPUs that
 * multiply pairs of bf16 (AVX512_BF16, twice the rate of fp32; AMX, sixteen times):
 *
 *   c[i,j] += sum_p  low(a[i,p]) low(b[p,j]) + high(a[i,p]) high(b[p,j])        a (m,pairs), b (pairs,n), c (m,n) dense
 *
 * A pair is two neighbors along the axis that is summed over, the first in the lower half. If their number is odd, the
 * last pair is filled with a zero, in both factors. Blocks of c stay in registers, as in tile_product.h, or with AMX in
 * the registers of amx.h.
 *
 * The vector instructions treat subnormal numbers as zero. Of a pair they add first the upper product, then the lower,
 * each with one rounding, as an FMA does. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume
 * 2, VDPBF16PS. */
#pragma once

#include "lib/ops/gemm/gemm_narrow.h"
#include "lib/ops/gemm/transpose.h"
#include <immintrin.h>
#include <stdint.h>

typedef uint32_t bf16_pair;
enum { DOT_LANES = 16, DOT_ROWS = 6, DOT_STRIP = 4 };

static inline bf16_pair pair_of(uint16_t first, uint16_t second) { return (bf16_pair)first | (bf16_pair)second << 16; }

/* Compute rows x `vectors` vectors of c; in each vector, the columns in `mask`. Called with constants, so that the sums
 * are registers. */
static inline __attribute__((always_inline)) void dot_block(int rows, int vectors, __mmask16 mask, float *restrict c,
                                                            int64_t n, int64_t pairs, const bf16_pair *restrict a,
                                                            const bf16_pair *restrict b) {
    __m512 sum[DOT_ROWS][DOT_STRIP];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[i][v] = _mm512_maskz_loadu_ps(mask, c + i * n + v * DOT_LANES);
    for (int64_t p = 0; p < pairs; p++) {
        __m512i row[DOT_STRIP];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) row[v] = _mm512_maskz_loadu_epi32(mask, b + p * n + v * DOT_LANES);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i * pairs + p]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], x, (__m512bh)row[v]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) _mm512_mask_storeu_ps(c + i * n + v * DOT_LANES, mask, sum[i][v]);
}

/* Compute all rows of `vectors` vectors of columns. */
static inline __attribute__((always_inline)) void dot_strip(int vectors, __mmask16 mask, float *restrict c, int64_t m,
                                                            int64_t n, int64_t pairs, const bf16_pair *restrict a,
                                                            const bf16_pair *restrict b) {
    int64_t i = 0;
    for (; i + DOT_ROWS <= m; i += DOT_ROWS)
        dot_block(DOT_ROWS, vectors, mask, c + i * n, n, pairs, a + i * pairs, b);
    c += i * n, a += i * pairs;
    switch (m - i) {
    case 5: dot_block(5, vectors, mask, c, n, pairs, a, b); break;
    case 4: dot_block(4, vectors, mask, c, n, pairs, a, b); break;
    case 3: dot_block(3, vectors, mask, c, n, pairs, a, b); break;
    case 2: dot_block(2, vectors, mask, c, n, pairs, a, b); break;
    case 1: dot_block(1, vectors, mask, c, n, pairs, a, b); break;
    default: break;
    }
}

static inline void dot_by_vectors(float *restrict c, int64_t m, int64_t n, int64_t pairs, const bf16_pair *restrict a,
                                  const bf16_pair *restrict b) {
    const __mmask16 all = 0xffff;
    int64_t j = 0;
    for (; j + DOT_STRIP * DOT_LANES <= n; j += DOT_STRIP * DOT_LANES)
        dot_strip(DOT_STRIP, all, c + j, m, n, pairs, a, b + j);
    for (; j + DOT_LANES <= n; j += DOT_LANES) dot_strip(1, all, c + j, m, n, pairs, a, b + j);
    if (j < n) dot_strip(1, (__mmask16)((1u << (n - j)) - 1), c + j, m, n, pairs, a, b + j);
}

#ifdef __AMX_BF16__
#include "lib/ops/gemm/amx.h"

static inline void dot_by_amx(float *restrict c, int64_t m, int64_t n, int64_t pairs, const bf16_pair *restrict a,
                              const bf16_pair *restrict b) {
    const size_t row = 4 * (size_t)n, a_row = 4 * (size_t)pairs;
    const int64_t block = 2 * AMX_HALF;
    int64_t depth = AMX_HALF, rows = 0, columns = 0;
    while (pairs % depth) depth--;
    for (int64_t i = 0; i < m; i += block)
        for (int64_t j = 0; j < n; j += block) {
            int64_t rows_here = m - i < block ? m - i : block, columns_here = n - j < block ? n - j : block;
            if (rows_here != rows || columns_here != columns)
                amx_set_up(rows = rows_here, columns = columns_here, depth);
            bool lower = rows > AMX_HALF, right = columns > AMX_HALF;
            float *here = c + i * n + j, *below = here + AMX_HALF * n;
            _tile_loadd(0, here, row);
            if (right) _tile_loadd(1, here + AMX_HALF, row);
            if (lower) _tile_loadd(2, below, row);
            if (lower && right) _tile_loadd(3, below + AMX_HALF, row);
            for (int64_t p = 0; p < pairs; p += depth) {
                _tile_loadd(4, a + i * pairs + p, a_row);
                _tile_loadd(6, b + p * n + j, row);
                _tile_dpbf16ps(0, 4, 6);
                if (lower) _tile_loadd(5, a + (i + AMX_HALF) * pairs + p, a_row);
                if (lower) _tile_dpbf16ps(2, 5, 6);
                if (!right) continue;
                _tile_loadd(7, b + p * n + j + AMX_HALF, row);
                _tile_dpbf16ps(1, 4, 7);
                if (lower) _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, here, row);
            if (right) _tile_stored(1, here + AMX_HALF, row);
            if (lower) _tile_stored(2, below, row);
            if (lower && right) _tile_stored(3, below + AMX_HALF, row);
        }
    _tile_release();
}
#endif

static inline void tile_dot_add(float *restrict c, int64_t m, int64_t n, int64_t pairs, const bf16_pair *restrict a,
                                const bf16_pair *restrict b) {
#ifdef __AMX_BF16__
    if (gemm_narrow_of(BF16)->way == BY_AMX) {
        dot_by_amx(c, m, n, pairs, a, b);
        return;
    }
#endif
    dot_by_vectors(c, m, n, pairs, a, b);
}

/* ---- packing ---- */

typedef int32_t dot_vec __attribute__((vector_size(64)));
DEFINE_TRANSPOSE(transpose_pairs, dot_vec, dot_vec, DOT_LANES)

static inline __mmask16 first_lanes(int64_t n) {
    return (__mmask16)(n < DOT_LANES ? (1u << (n > 0 ? n : 0)) - 1 : 0xffff);
}

/* Store x transposed: it is the 16 x 16 square at row i and column j of (rows,n), and `to` is (n,rows). */
static inline void store_transposed(bf16_pair *to, dot_vec x[DOT_LANES], int64_t rows, int64_t n, int64_t i,
                                    int64_t j) {
    transpose_pairs(x);
#pragma GCC unroll 16
    for (int l = 0; l < DOT_LANES; l++)
        if (j + l < n) _mm512_mask_storeu_epi32(to + (j + l) * rows + i, first_lanes(rows - i), (__m512i)x[l]);
}

/* to (n, pairs of rows) from x (rows,n), rounded to bf16; the last of an odd number of rows is paired with zeros. */
static inline void pairs_of_columns(bf16_pair *to, const float *x, int64_t rows, int64_t n) {
    for (int64_t j = 0; j < n; j += DOT_LANES)
        for (int64_t i = 0; i < rows; i += 2 * DOT_LANES) {
            dot_vec square[DOT_LANES];
#pragma GCC unroll 16
            for (int l = 0; l < DOT_LANES; l++) {
                const float *row = x + (i + 2 * l) * n + j;
                __mmask16 mask = first_lanes(n - j), first = i + 2 * l < rows ? mask : 0,
                          second = i + 2 * l + 1 < rows ? mask : 0;
                __m256bh low = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(first, row));
                __m256bh high = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(second, row + n));
                square[l] = (dot_vec)_mm512_or_si512(_mm512_cvtepu16_epi32((__m256i)low),
                                                     _mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)high), 16));
            }
            store_transposed(to, square, (rows + 1) / 2, n, i / 2, j);
        }
}

/* to[i] = x[2 i] and x[2 i + 1], rounded to bf16; n numbers, after the last of an odd number a zero. */
static inline void pairs_of_row(bf16_pair *to, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += DOT_LANES) {
        int64_t left = n - i < DOT_LANES ? n - i : DOT_LANES;
        __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps((__mmask16)((1u << left) - 1), x + i));
        _mm256_mask_storeu_epi32(to + i / 2, (__mmask8)((1u << (left + 1) / 2) - 1), rounded);
    }
}
