/* exp for real (float or double) in a form that the compiler vectorises: no table, no branch, no library call. Softmax
 * and gelu use it for x <= 0, or above 0 by a rounding error.
 *
 *   x = n ln 2 + r,  |r| <= ln 2 / 2      e^x = 2^n e^r      e^r = sum r^k / k!
 *
 * ln 2 is subtracted in two parts (Cody and Waite), so r is exact to a rounding. The series ends where the next term is
 * below a tenth of a unit in the last place: r^8/8! in float, r^14/14! in double. Adding EXP_ROUNDER rounds x / ln 2 to
 * the integer n, because the sum's last bit is worth 1. Its low bits are n; shifted into the exponent, they make 2^n.
 * The error is below 2 units in the last place. Below the normal range the result is 0. NaN stays NaN. */
#pragma once

#include "lib/ops/real.h"

#if defined ELEM_fp64
typedef uint64_t real_bits;
#define REAL(x) x
#define EXP_LOWEST (-708.0)                     /* e^x is 0 below */
#define EXP_HIGHEST 700.0
#define EXP_ROUNDER 0x1.8p52                    /* adding it leaves a whole number in the low bits */
#define EXP_LN2_HIGH 0x1.62e42fefa0000p-1       /* trailing zeros, so that n times it is exact */
#define EXP_LN2_LOW 0x1.cf79abc9e3b3ap-40
enum { EXP_BIAS = 1023, EXP_MANTISSA = 52 };
#else
typedef uint32_t real_bits;
#define REAL(x) x##f
#define EXP_LOWEST (-87.0f)
#define EXP_HIGHEST 80.0f
#define EXP_ROUNDER 0x1.8p23f
#define EXP_LN2_HIGH 0x1.62e000p-1f
#define EXP_LN2_LOW 0x1.0bfbe8p-15f
enum { EXP_BIAS = 127, EXP_MANTISSA = 23 };
#endif

/* 2^n from n + EXP_ROUNDER: the shift moves the rounder's own bits out and n into the exponent. */
static inline real power_of_two(real shifted) {
    real_bits bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + EXP_BIAS) << EXP_MANTISSA;
    real x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* sum r^k / k!, to k = 13 in double and 7 in float, from the last term inward */
static inline real exp_series(real r) {
#if defined ELEM_fp64
    real sum = 1 / 39916800. + r * (1 / 479001600. + r * (1 / 6227020800.));
    sum = 1 / 40320. + r * (1 / 362880. + r * (1 / 3628800. + r * sum));
    sum = 1 / 5040. + r * sum;
#else
    real sum = 1 / 5040.f;
#endif
    sum = REAL(1.) / 24 + r * (REAL(1.) / 120 + r * (REAL(1.) / 720 + r * sum));
    return 1 + r * (1 + r * (REAL(1.) / 2 + r * (REAL(1.) / 6 + r * sum)));
}

/** e^x for x <= EXP_HIGHEST. */
static inline real real_exp(real x) {
    real within = x < EXP_LOWEST ? EXP_LOWEST : x;   /* written so that NaN passes */
    real shifted = within * REAL(0x1.71547652b82fep0) + EXP_ROUNDER;      /* x / ln 2 */
    real whole = shifted - EXP_ROUNDER;
    real r = (within - whole * EXP_LN2_HIGH) - whole * EXP_LN2_LOW;
    real power = exp_series(r) * power_of_two(shifted);
    return x < EXP_LOWEST ? 0 : power;
}
