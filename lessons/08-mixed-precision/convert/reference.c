/* Conversions between fp32 and the two 16-bit formats, with integer operations only.
 *
 * A finite number is significand x 2^exponent. Rounding adds half of the last kept bit's value, then drops the lower
 * bits; on a tie it adds half only if the last kept bit is 1. A carry out of the significand correctly increments the
 * exponent: 1.11..1 rounds to 10.0, and the largest number to the bits of infinity. */
#include "lessons/08-mixed-precision/convert/convert.h"

enum { INFINITE = 0x7f800000, SIGN_16 = 0x8000 };

/* x / 2^drop, to nearest, ties to even; 0 < drop < 32 */
static uint32_t dropped(uint32_t x, int drop) {
    uint32_t half = 1u << (drop - 1), last = x >> drop & 1u;
    return (x + half - 1 + last) >> drop;
}

static uint16_t bf16_of(float x) {
    uint32_t bits = bits_of(x), sign = bits >> 16 & SIGN_16, magnitude = bits & 0x7fffffff;
    /* a NaN with only low bits set must not become infinity */
    if (magnitude > INFINITE) return (uint16_t)(sign | magnitude >> 16 | 0x40);
    return (uint16_t)(sign | dropped(magnitude, 16));
}

static uint16_t fp16_of(float x) {
    uint32_t bits = bits_of(x), sign = bits >> 16 & SIGN_16, magnitude = bits & 0x7fffffff;
    if (magnitude > INFINITE) return (uint16_t)(sign | 0x7e00);
    int exponent = (int)(magnitude >> 23) - 127;
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;                    /* with the hidden bit: 24 bits */
    if (exponent > 15) return (uint16_t)(sign | 0x7c00);
    /* below half of the smallest number; also fp32's subnormal numbers */
    if (exponent < -14 - 11) return (uint16_t)sign;
    if (exponent < -14) return (uint16_t)(sign | dropped(significand, 13 - 14 - exponent));
    /* the hidden bit adds the missing 1 */
    return (uint16_t)(sign | (((uint32_t)(exponent + 14) << 10) + dropped(significand, 13)));
}

/* A subnormal number is mantissa x 2^-24: shift the mantissa until the hidden bit is set. */
static float float_of_fp16(uint16_t x) {
    uint32_t sign = (uint32_t)(x & SIGN_16) << 16, exponent = x >> 10 & 31, mantissa = x & 0x3ff;
    if (exponent == 31) return float_of(sign | INFINITE | mantissa << 13);
    if (exponent == 0 && mantissa == 0) return float_of(sign);
    exponent += 127 - 15;
    if (exponent == 127 - 15) {
        for (exponent++; !(mantissa & 0x400); exponent--) mantissa <<= 1;
        mantissa &= 0x3ff;
    }
    return float_of(sign | exponent << 23 | mantissa << 13);
}

enum status convert_to_bf16(uint16_t *to, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = bf16_of(from[i]);
    return OK;
}
enum status convert_to_fp16(uint16_t *to, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = fp16_of(from[i]);
    return OK;
}
enum status convert_from_bf16(float *to, const uint16_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = float_of((uint32_t)from[i] << 16);
    return OK;
}
enum status convert_from_fp16(float *to, const uint16_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = float_of_fp16(from[i]);
    return OK;
}
