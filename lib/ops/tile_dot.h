/* The product of two small matrices of bf16, summed in fp32, for tiles that lie in a core's cache, on CPUs that multiply pairs of
 * bf16 (AVX512_BF16, twice the rate of fp32):
 *
 *   c[i,j] += sum_p  low(a[i,p]) low(b[p,j]) + high(a[i,p]) high(b[p,j])        c (m,n), b (pairs,n) dense; a[i,p] at a[i a_row + p a_column]
 *
 * A pair is two neighbours along the axis that is summed over, the first in the lower half. Who packs an odd number of them fills
 * the last pair with a zero, in both factors. Blocks of c in registers, as in tile_product.h.
 *
 * Subnormal numbers count as zero, and of a pair first the upper product is added, then the lower, each with one rounding, as by an FMA.
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS. */
#ifndef TRIVIUM_OPS_TILE_DOT_H
#define TRIVIUM_OPS_TILE_DOT_H

#include <immintrin.h>
#include <stdint.h>

typedef uint32_t bf16_pair;
enum { DOT_LANES = 16, DOT_ROWS = 6, DOT_STRIP = 4 };

static inline bf16_pair pair_of(uint16_t first, uint16_t second) { return (bf16_pair)first | (bf16_pair)second << 16; }

/* rows x `vectors` vectors of c; of each vector, the columns in `mask`. Called with constants, so that the sums are registers. */
static inline __attribute__((always_inline)) void dot_block(int rows, int vectors, __mmask16 mask, float *restrict c, int64_t n,
                                                            int64_t pairs, const bf16_pair *restrict a, int64_t a_row,
                                                            int64_t a_column, const bf16_pair *restrict b) {
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
            __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i * a_row + p * a_column]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], x, (__m512bh)row[v]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) _mm512_mask_storeu_ps(c + i * n + v * DOT_LANES, mask, sum[i][v]);
}

/* All rows of `vectors` vectors of columns. */
static inline __attribute__((always_inline)) void dot_strip(int vectors, __mmask16 mask, float *restrict c, int64_t m, int64_t n,
                                                            int64_t pairs, const bf16_pair *restrict a, int64_t a_row,
                                                            int64_t a_column, const bf16_pair *restrict b) {
    int64_t i = 0;
    for (; i + DOT_ROWS <= m; i += DOT_ROWS)
        dot_block(DOT_ROWS, vectors, mask, c + i * n, n, pairs, a + i * a_row, a_row, a_column, b);
    c += i * n, a += i * a_row;
    switch (m - i) {
    case 5: dot_block(5, vectors, mask, c, n, pairs, a, a_row, a_column, b); break;
    case 4: dot_block(4, vectors, mask, c, n, pairs, a, a_row, a_column, b); break;
    case 3: dot_block(3, vectors, mask, c, n, pairs, a, a_row, a_column, b); break;
    case 2: dot_block(2, vectors, mask, c, n, pairs, a, a_row, a_column, b); break;
    case 1: dot_block(1, vectors, mask, c, n, pairs, a, a_row, a_column, b); break;
    default: break;
    }
}

static void tile_dot_add(float *restrict c, int64_t m, int64_t n, int64_t pairs, const bf16_pair *restrict a, int64_t a_row,
                         int64_t a_column, const bf16_pair *restrict b) {
    const __mmask16 all = 0xffff;
    int64_t j = 0;
    for (; j + DOT_STRIP * DOT_LANES <= n; j += DOT_STRIP * DOT_LANES)
        dot_strip(DOT_STRIP, all, c + j, m, n, pairs, a, a_row, a_column, b + j);
    for (; j + DOT_LANES <= n; j += DOT_LANES) dot_strip(1, all, c + j, m, n, pairs, a, a_row, a_column, b + j);
    if (j < n) dot_strip(1, (__mmask16)((1u << (n - j)) - 1), c + j, m, n, pairs, a, a_row, a_column, b + j);
}

/* to[i] = x[i] and y[i], rounded to bf16, i < n; y NULL: zeros. */
static inline void pairs_of_columns(bf16_pair *to, const float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i += DOT_LANES) {
        __mmask16 mask = (__mmask16)(n - i < DOT_LANES ? (1u << (n - i)) - 1 : 0xffff);
        __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i)));
        __m512i high = _mm512_setzero_si512();
        if (y) high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, y + i)));
        _mm512_mask_storeu_epi32(to + i, mask, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
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

#endif
