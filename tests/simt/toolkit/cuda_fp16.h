/* IEEE half precision, for machines without a toolkit: 1 sign, 5 exponent and 10 fraction bits. */
#pragma once

#include "toolkit_half.h"

/* Values below 65504 plus half a unit round to a finite half; below 2^-14 the unit stays 2^-24. */
static inline uint16_t toolkit_half_bits(float x) {
    uint32_t bits = toolkit_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7fff;               /* NaN, as the hardware writes it */
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    int exponent = (int)(magnitude >> 23);
    if (exponent < 102) return (uint16_t)sign;               /* below 2^-25 */
    if (exponent >= 113) return (uint16_t)(sign | toolkit_shift_rounded(magnitude - (112u << 23), 13));
    return (uint16_t)(sign | toolkit_shift_rounded((magnitude & 0x7fffff) | 0x800000, 126 - exponent));
}
static inline float toolkit_half_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00) return toolkit_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x400) return toolkit_float(sign | ((magnitude << 13) + (112u << 23)));
    float tiny = (float)magnitude * 0x1p-24f;
    return sign ? -tiny : tiny;
}

struct __half {
    uint16_t bits;
    __half() = default;
    __half(float x) : bits(toolkit_half_bits(x)) {}
    __half(double x) : bits(toolkit_half_bits((float)x)) {}
    __half(int x) : bits(toolkit_half_bits((float)x)) {}
    operator float() const { return toolkit_half_float(bits); }
};
typedef __half half;
struct alignas(4) __half2 { __half x, y; };
typedef __half2 half2;

static inline float __half2float(__half x) { return toolkit_half_float(x.bits); }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
TOOLKIT_OPERATORS(__half, __float2half_rn, __half2float)

static inline __half2 __halves2half2(__half x, __half y) { return __half2{x, y}; }
static inline __half2 __floats2half2_rn(float x, float y) { return __half2{__half(x), __half(y)}; }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline float __low2float(__half2 v) { return __half2float(v.x); }
static inline float __high2float(__half2 v) { return __half2float(v.y); }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __half __ushort_as_half(unsigned short bits) {
    __half x;
    x.bits = bits;
    return x;
}
static inline bool __hisnan(__half x) { return (x.bits & 0x7fff) > 0x7c00; }
