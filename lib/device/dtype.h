/* Element types. fp64 and fp32 compute as they are; bf16 and fp16 are stored so and computed in fp32, rounded once. */
#ifndef TRIVIUM_DEVICE_DTYPE_H
#define TRIVIUM_DEVICE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dtype { FP64, FP32, BF16, FP16, INT32, UINT8, N_DTYPES };

static inline size_t dtype_size(enum dtype d) {
    return d == FP64 ? 8 : d == FP32 || d == INT32 ? 4 : d == UINT8 ? 1 : 2;
}
const char *dtype_name(enum dtype); /* "fp64", "fp32", "bf16", "fp16", "int32", "uint8" */

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

/* IEEE half: 1 sign, 5 exponent (bias 15), 10 mantissa bits; fp32: 1, 8 (bias 127), 23. The biases differ by 112.
 * Written as choices between results that are all worked out, so that loops over them vectorise; the compiler's own
 * conversion is one element at a time (gcc 12), and three times slower in a loop. */
static inline uint32_t dtype_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float dtype_float_of(uint32_t bits) {
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
    /* A carry into the exponent is right as it is. */
    uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x1ffu);                       /* made quiet */
    uint32_t bits = magnitude < 0x38800000u ? subnormal
                  /* 65520: half way past the largest, 65504 */
                  : magnitude < 0x477ff000u ? normal
                  : magnitude <= 0x7f800000u ? 0x7c00u : nan;
    return (uint16_t)(sign | bits);
}

/** n elements of `from` converted to `to`. Source and target do not overlap. Not for INT32 / UINT8. */
void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type, int64_t n);

/** One element as double / from double, at index i. */
double dtype_get(const void *x, enum dtype, int64_t i);
void dtype_set(void *x, enum dtype, int64_t i, double value);

#ifdef __cplusplus
}
#endif
#endif
