/* bfloat16, for machines without a toolkit: the upper half of a float. */
#pragma once

#include "toolkit_half.h"

static inline uint16_t toolkit_bfloat16_bits(float x) {
    uint32_t bits = toolkit_bits(x);
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (uint16_t)toolkit_shift_rounded(bits, 16);
}

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) : bits(toolkit_bfloat16_bits(x)) {}
    __nv_bfloat16(double x) : bits(toolkit_bfloat16_bits((float)x)) {}
    __nv_bfloat16(int x) : bits(toolkit_bfloat16_bits((float)x)) {}
    operator float() const { return toolkit_float((uint32_t)bits << 16); }
};
typedef __nv_bfloat16 nv_bfloat16;
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __nv_bfloat162 nv_bfloat162;

static inline float __bfloat162float(__nv_bfloat16 x) { return toolkit_float((uint32_t)x.bits << 16); }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
TOOLKIT_OPERATORS(__nv_bfloat16, __float2bfloat16_rn, __bfloat162float)

static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162{x, y}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return __nv_bfloat162{__nv_bfloat16(x), __nv_bfloat16(y)};
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __nv_bfloat16 x;
    x.bits = bits;
    return x;
}
static inline bool __hisnan(__nv_bfloat16 x) { return (x.bits & 0x7fff) > 0x7f80; }
