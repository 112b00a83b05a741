/* The contract of the exercise "convert": from 32 bits to 16 and back, with integer operations only. */
#pragma once

#include "lib/base/status.h"

#include <stdint.h>
#include <string.h>

/* ---- given ---- */
static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- to be written, in convert.c ---- */

/** Round n floats to the nearest number of the format; of two equally near numbers, to the one whose last bit is 0. A
 *  float that exceeds the largest number by half a spacing or more becomes infinity with the float's sign. Zeros keep
 *  their sign. Every NaN stays a NaN. Floats too small for a normal number become subnormal numbers, or zero, by the
 *  same rule. */
enum status convert_to_bf16(uint16_t *to, const float *from, int64_t n);
enum status convert_to_fp16(uint16_t *to, const float *from, int64_t n);

/** Convert back, which is exact: every 16-bit number, also subnormal or infinite, is a float. NaN stays NaN. */
enum status convert_from_bf16(float *to, const uint16_t *from, int64_t n);
enum status convert_from_fp16(float *to, const uint16_t *from, int64_t n);
