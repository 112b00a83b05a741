/* What gemm_packed.h multiplies in pairs of bf16: included by the two files that do, for vectors and for AMX. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

#define WIDENS 0
typedef uint16_t number, stored;
typedef uint32_t unit;
enum { PER_UNIT = 2 };
#include "lib/ops/gemm/gemm_vector.h"

INLINE __m256i sixteen(const stored *x) { return _mm256_loadu_si256((const __m256i_u *)x); }
INLINE vec above(__m256i x) { return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }

INLINE number number_of(stored x) { return x; }
INLINE vec multiply_add(vec sum, unit a, vec b) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
}
INLINE vec units(const stored *x) { return load(x); }
INLINE vec unit_rows(const stored *x, int64_t stride) {
    return (vec)_mm512_or_si512(_mm512_cvtepu16_epi32(sixteen(x)), (__m512i)above(sixteen(x + stride)));
}
INLINE vec widen(const stored *x) { return above(sixteen(x)); }
INLINE void narrow(stored *to, vec x) { _mm256_storeu_si256((__m256i_u *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x)); }
