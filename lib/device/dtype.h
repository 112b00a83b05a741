/* Element types. Ops compute fp64 and fp32 in the same type; bf16 and fp16 are only stored, computed in fp32, and
 * rounded once. fp8 and fp4 are only for operands of products (lib/ops/fp8.h, lib/ops/). */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Conversions that kernels call too. */
#ifdef __CUDACC__
#define DTYPE_FUNCTION __host__ __device__ static inline
#else
#define DTYPE_FUNCTION static inline
#endif

enum dtype { FP64, FP32, BF16, FP16, INT32, UINT8, FP8_E4M3, FP8_E5M2, FP4_E2M1, N_DTYPES };

/* Two numbers of FP4_E2M1 share a byte, the first in its lower half: a tensor has half as many bytes (type_bytes). */
static inline size_t dtype_size(enum dtype d) {
    return d == FP64 ? 8 : d == FP32 || d == INT32 ? 4 : d == BF16 || d == FP16 ? 2 : 1;
}
/* "fp64", "fp32", "bf16", "fp16", "int32", "uint8", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1" */
const char *dtype_name(enum dtype);
static inline int dtype_is_fp8(enum dtype d) { return d == FP8_E4M3 || d == FP8_E5M2; }

/** Are all n elements finite? */
int dtype_all_finite(const void *, enum dtype, int64_t n);

/** The type in which an op sums and keeps statistics: fp64 for fp64, else fp32. */
static inline enum dtype dtype_accumulator(enum dtype d) { return d == FP64 ? FP64 : FP32; }

/* bf16 is the upper half of a float. Rounding is to nearest, ties to even; NaN stays NaN. */
static inline float bf16_to_float(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}
static inline uint16_t bf16_from_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/* IEEE half: 1 sign, 5 exponent (bias 15), 10 mantissa bits; fp32: 1, 8 (bias 127), 23. The biases differ by 112. All
 * cases are computed, and the result is chosen at the end, so that loops vectorise. The compiler's own conversion takes
 * one element at a time (gcc 12), and is three times slower in a loop. */
DTYPE_FUNCTION uint32_t dtype_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
DTYPE_FUNCTION float dtype_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline float fp16_to_float(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, magnitude = x & 0x7fffu;
    uint32_t subnormal = dtype_bits_of((float)(int32_t)magnitude * 0x1p-24f);  /* and zero */
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t special = magnitude << 13 | 0x7f800000u;                          /* infinity, NaN */
    uint32_t bits = magnitude < 0x400u ? subnormal : magnitude < 0x7c00u ? normal : special;
    return dtype_float_of(sign | bits);
}
static inline uint16_t fp16_from_float(float x) {
    uint32_t sign = dtype_bits_of(x) >> 16 & 0x8000u, magnitude = dtype_bits_of(x) & 0x7fffffffu;
    /* Below 2^-14 fp16 counts in steps of 2^-24, which is also fp32's step in [0.5, 1): adding 0.5 rounds. */
    uint32_t subnormal = dtype_bits_of(dtype_float_of(magnitude) + 0.5f) - dtype_bits_of(0.5f);
    /* A carry from the mantissa into the exponent gives the right number. */
    uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x1ffu);                       /* made quiet */
    uint32_t bits = magnitude < 0x38800000u ? subnormal
                  /* 65520: half way past the largest, 65504 */
                  : magnitude < 0x477ff000u ? normal
                  : magnitude <= 0x7f800000u ? 0x7c00u : nan;
    return (uint16_t)(sign | bits);
}

/* double -> float for a value that will be rounded again, to 16 or 8 bits: truncate, and set the last bit if the result
 * is inexact. ("Round to odd"; rounding to nearest twice would turn values next to a tie into ties. Boldo, Melquiond
 * 2008.) */
static inline float dtype_float_to_odd(double x) {
    float nearest = (float)x;
    if ((double)nearest == x || x != x) return nearest;
    uint32_t bits = dtype_bits_of(nearest);
    /* towards zero; infinity becomes the largest finite float */
    if (x < 0 ? (double)nearest < x : (double)nearest > x) bits--;
    return dtype_float_of(bits | 1u);
}

/* The 8-bit formats of the Open Compute Project (Micikevicius et al. 2022), one with more precision, one with a wider
 * range.
 *
 *   E4M3   1 sign, 4 exponent (bias 7), 3 mantissa bits    largest 448     smallest 2^-9    no infinity, NaN s.1111.111
 *   E5M2   1 sign, 5 exponent (bias 15), 2 mantissa bits   largest 57344   smallest 2^-16   infinity and NaN as IEEE's
 *
 * Rounding is to nearest, ties to even, and saturates: larger numbers, and infinity, become the largest. NaN becomes
 * 0x7f. */
#define FP8_E4M3_MAX 448.0
#define FP8_E5M2_MAX 57344.0

DTYPE_FUNCTION float e4m3_to_float(uint8_t x) {
    uint32_t sign = (uint32_t)(x & 0x80u) << 24, magnitude = x & 0x7fu;
    uint32_t subnormal = dtype_bits_of((float)(int32_t)magnitude * 0x1p-9f);   /* and zero */
    uint32_t normal = (magnitude << 20) + (120u << 23);                        /* 120 = 127 - 7 */
    uint32_t bits = magnitude < 0x08u ? subnormal : magnitude < 0x7fu ? normal : 0x7fc00000u;
    return dtype_float_of(sign | bits);
}
/* E5M2 is the upper half of an fp16. */
static inline float e5m2_to_float(uint8_t x) { return fp16_to_float((uint16_t)((uint16_t)x << 8)); }

/* Rounds as fp16_from_float does. shift: mantissa bits that are dropped; gap: difference of the exponent biases; step:
 * a float whose last bit has the value of fp8's smallest subnormal; least: fp8's smallest normal number. */
DTYPE_FUNCTION uint8_t fp8_round(float x, int shift, uint32_t gap, float step, float least, float most,
                                 uint32_t most_code) {
    uint32_t sign = dtype_bits_of(x) >> 24 & 0x80u, magnitude = dtype_bits_of(x) & 0x7fffffffu;
    uint32_t even = (1u << (shift - 1)) - 1;
    uint32_t subnormal = dtype_bits_of(dtype_float_of(magnitude) + step) - dtype_bits_of(step);
    uint32_t normal = (magnitude + even + (magnitude >> shift & 1u) - (gap << 23)) >> shift;
    uint32_t code = magnitude < dtype_bits_of(least) ? subnormal
                  : magnitude < dtype_bits_of(most) ? normal
                  : magnitude <= 0x7f800000u ? most_code : 0x7fu;
    return (uint8_t)(magnitude <= 0x7f800000u ? sign | code : code);
}
DTYPE_FUNCTION uint8_t e4m3_from_float(float x) {
    return fp8_round(x, 20, 120, 0x1p14f, 0x1p-6f, (float)FP8_E4M3_MAX, 0x7eu);
}
DTYPE_FUNCTION uint8_t e5m2_from_float(float x) {
    return fp8_round(x, 21, 112, 0x1p7f, 0x1p-14f, (float)FP8_E5M2_MAX, 0x7bu);
}

/* E2M1, the 4 bits of MXFP4 and NVFP4: 1 sign, 2 exponent (bias 1), 1 mantissa bit; no infinity and no NaN. Larger
 * numbers saturate. A tie goes to the code that is even. Not for NaN. */
#define FP4_E2M1_MAX 6.0
static inline float e2m1_to_float(uint8_t x) {
    static const float numbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return x & 8 ? -numbers[x & 7] : numbers[x & 7];
}
DTYPE_FUNCTION uint8_t e2m1_from_float(float x) {
    float a = dtype_float_of(dtype_bits_of(x) & 0x7fffffffu);
    int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5);
    return (uint8_t)(code | (int)(dtype_bits_of(x) >> 28 & 8));
}

/** Convert n elements of `from` to `to`, which do not overlap. Not for INT32, UINT8 and FP4_E2M1. */
void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type, int64_t n);

/** Read one element as double, or write it from double, at index i. FP4_E2M1 is only read. */
double dtype_get(const void *x, enum dtype, int64_t i);
void dtype_set(void *x, enum dtype, int64_t i, double value);
