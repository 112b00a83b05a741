/* The contract of the exercise "convert": from 32 bits to 16 and back, with integers alone. */
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

/** n floats, each rounded to the nearest number of the format; of two that are equally near, to the one whose last bit
 *  is 0. From half a spacing beyond the largest number on: infinity, with x's sign. Zeros keep their sign. NaN stays
 *  NaN, whichever of its bits are set. Numbers too small for a normal number become subnormal ones, or zero, by the
 *  same rule. */
enum status convert_to_bf16(uint16_t *to, const float *from, int64_t n);
enum status convert_to_fp16(uint16_t *to, const float *from, int64_t n);

/** The other way nothing is lost: every value, subnormal ones and infinity too, is the same number as a float. NaN
 *  stays NaN. */
enum status convert_from_bf16(float *to, const uint16_t *from, int64_t n);
enum status convert_from_fp16(float *to, const uint16_t *from, int64_t n);
