/* CUDA's functions that C's library lacks. The fast ones (__expf) are exact here and off by some units in the last
 * place on a GPU, so a test's tolerance must leave room for the GPU's error. */
#pragma once

/* ---- macros, because glibc declares these names without defining them ---- */
static inline float simt_expf(float x) { return expf(x); }
static inline float simt_exp10f(float x) { return powf(10.0f, x); }
static inline float simt_logf(float x) { return logf(x); }
static inline float simt_log2f(float x) { return log2f(x); }
static inline float simt_log10f(float x) { return log10f(x); }
static inline float simt_powf(float x, float y) { return powf(x, y); }
static inline float simt_sinf(float x) { return sinf(x); }
static inline float simt_cosf(float x) { return cosf(x); }
static inline float simt_tanf(float x) { return tanf(x); }
static inline float simt_rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double simt_rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float simt_rsqrt(float x) { return 1.0f / sqrtf(x); }
#define __expf simt_expf
#define __exp10f simt_exp10f
#define __logf simt_logf
#define __log2f simt_log2f
#define __log10f simt_log10f
#define __powf simt_powf
#define __sinf simt_sinf
#define __cosf simt_cosf
#define __tanf simt_tanf
#define rsqrtf simt_rsqrtf
#define rsqrt simt_rsqrt

/* ---- arithmetic with the rounding in the name; it must not become part of an FMA ---- */
#define SIMT_ROUNDED(type, name, parameters, expression)                                                               \
    static inline type name parameters {                                                                               \
        type result = (expression);                                                                                    \
        __asm__("" : "+m"(result));                                                                                    \
        return result;                                                                                                 \
    }
SIMT_ROUNDED(float, __fadd_rn, (float x, float y), x + y)
SIMT_ROUNDED(float, __fsub_rn, (float x, float y), x - y)
SIMT_ROUNDED(float, __fmul_rn, (float x, float y), x * y)
SIMT_ROUNDED(double, __dadd_rn, (double x, double y), x + y)
SIMT_ROUNDED(double, __dsub_rn, (double x, double y), x - y)
SIMT_ROUNDED(double, __dmul_rn, (double x, double y), x * y)
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __drcp_rn(double x) { return 1.0 / x; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
/* 0 for 2^126 < |y| < 2^128, as the guide says. */
static inline float __fdividef(float x, float y) {
    return fabsf(y) > 0x1p126f && fabsf(y) <= 0x1.fffffep127f ? 0.0f * x : x / y;
}
static inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.0f : 0.0f; }

/* ---- conversions ---- */
template <class To, class From> static inline To simt_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) { return simt_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return simt_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return simt_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return simt_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return simt_bits<double>(x); }
static inline float __double2float_rn(double x) { return (float)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline int __float2int_rn(float x) { return (int)lrintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline unsigned __float2uint_rn(float x) { return (unsigned)llrintf(x); }
static inline unsigned __float2uint_rz(float x) { return (unsigned)x; }
static inline int __double2int_rn(double x) { return (int)lrint(x); }

/* ---- integers ---- */
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((uint64_t)x * y >> 32); }
static inline int __mulhi(int x, int y) { return (int)((int64_t)x * y >> 32); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

/* ---- min and max: CUDA has them for every pair of arithmetic types; a NaN loses ---- */
#define SIMT_MIN_MAX(type)                                                                                             \
    static inline type min(type x, type y) { return y < x ? y : x; }                                                   \
    static inline type max(type x, type y) { return x < y ? y : x; }
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(long)
SIMT_MIN_MAX(unsigned long)
SIMT_MIN_MAX(long long)
SIMT_MIN_MAX(unsigned long long)
static inline float min(float x, float y) { return fminf(x, y); }
static inline float max(float x, float y) { return fmaxf(x, y); }
static inline double min(double x, double y) { return fmin(x, y); }
static inline double max(double x, double y) { return fmax(x, y); }

/* ---- loads and stores with a hint about caches ---- */
template <class T> inline T __ldg(const T *at) { return *at; }
template <class T> inline T __ldcs(const T *at) { return *at; }
template <class T> inline T __ldcg(const T *at) { return *at; }
template <class T> inline T __ldca(const T *at) { return *at; }
template <class T> inline void __stcs(T *at, T value) { *at = value; }
template <class T> inline void __stcg(T *at, T value) { *at = value; }
