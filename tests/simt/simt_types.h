/* Arithmetic of 16-bit floats that NVIDIA's headers declare for GPUs only. As on a GPU: computed in float, rounded
 * once. */
#pragma once

static inline float simt_float(float x) { return x; }
static inline float simt_float(__half x) { return __half2float(x); }
static inline float simt_float(__nv_bfloat16 x) { return __bfloat162float(x); }
static inline void simt_round(float *to, float x) { *to = x; }
static inline void simt_round(__half *to, float x) { *to = __float2half_rn(x); }
static inline void simt_round(__nv_bfloat16 *to, float x) { *to = __float2bfloat16_rn(x); }

/* x y has at most 22 bits, so in double x y + z is exact but for its last rounding; the rounding to float before the
 * one to 16 bits rounds to odd: what it cuts off stays visible. */
static inline float simt_fma_to_odd(float x, float y, float z) {
    double exact = (double)x * y + z;
    float result = (float)exact;
    if ((double)result == exact || result != result || isinf(result)) return result;
    uint32_t bits = simt_bits<uint32_t>(result);
    if (fabs((double)result) > fabs(exact)) bits--;          /* towards zero */
    return simt_bits<float>(bits | 1);
}

#define SIMT_16_BITS(type)                                                                                             \
    static inline type __hfma(type x, type y, type z) {                                                                \
        type result;                                                                                                   \
        simt_round(&result, simt_fma_to_odd(simt_float(x), simt_float(y), simt_float(z)));                             \
        return result;                                                                                                 \
    }                                                                                                                  \
    static inline type hexp(type x) { simt_round(&x, expf(simt_float(x))); return x; }                                 \
    static inline type hlog(type x) { simt_round(&x, logf(simt_float(x))); return x; }                                 \
    static inline type hsqrt(type x) { simt_round(&x, sqrtf(simt_float(x))); return x; }                               \
    static inline type hrsqrt(type x) { simt_round(&x, 1.0f / sqrtf(simt_float(x))); return x; }                       \
    static inline type hrcp(type x) { simt_round(&x, 1.0f / simt_float(x)); return x; }
SIMT_16_BITS(__half)
SIMT_16_BITS(__nv_bfloat16)

static inline __half2 __hfma2(__half2 x, __half2 y, __half2 z) {
    return __halves2half2(__hfma(__low2half(x), __low2half(y), __low2half(z)),
                          __hfma(__high2half(x), __high2half(y), __high2half(z)));
}
static inline __nv_bfloat162 __hfma2(__nv_bfloat162 x, __nv_bfloat162 y, __nv_bfloat162 z) {
    return __halves2bfloat162(__hfma(__low2bfloat16(x), __low2bfloat16(y), __low2bfloat16(z)),
                              __hfma(__high2bfloat16(x), __high2bfloat16(y), __high2bfloat16(z)));
}
