/* Shared by cuda_fp16.h and cuda_bf16.h. A 16-bit float is stored as its bits; arithmetic is in float, rounded once, to
 * nearest and ties to even, as in hardware. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t toolkit_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float toolkit_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x 2^-n rounded to an integer; 0 < n < 64 */
static inline uint32_t toolkit_shift_rounded(uint64_t x, int n) {
    uint64_t kept = x >> n, rest = x & (((uint64_t)1 << n) - 1), half = (uint64_t)1 << (n - 1);
    return (uint32_t)(kept + (rest > half || (rest == half && (kept & 1))));
}

/* The operators of a 16-bit type `type`, made by `from` and read by `to`. */
#define TOOLKIT_OPERATORS(type, from, to)                                                                              \
    static inline type operator+(type x, type y) { return from(to(x) + to(y)); }                                       \
    static inline type operator-(type x, type y) { return from(to(x) - to(y)); }                                       \
    static inline type operator*(type x, type y) { return from(to(x) * to(y)); }                                       \
    static inline type operator/(type x, type y) { return from(to(x) / to(y)); }                                       \
    static inline type operator-(type x) { return from(-to(x)); }                                                      \
    static inline type &operator+=(type &x, type y) { return x = x + y; }                                              \
    static inline type &operator-=(type &x, type y) { return x = x - y; }                                              \
    static inline type &operator*=(type &x, type y) { return x = x * y; }                                              \
    static inline type &operator/=(type &x, type y) { return x = x / y; }                                              \
    static inline bool operator==(type x, type y) { return to(x) == to(y); }                                           \
    static inline bool operator!=(type x, type y) { return to(x) != to(y); }                                           \
    static inline bool operator<(type x, type y) { return to(x) < to(y); }                                             \
    static inline bool operator>(type x, type y) { return to(x) > to(y); }                                             \
    static inline bool operator<=(type x, type y) { return to(x) <= to(y); }                                           \
    static inline bool operator>=(type x, type y) { return to(x) >= to(y); }
