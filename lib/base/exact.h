/* Sums without rounding: of numbers that fp32 or a product of two fp32 can be.
 *
 * The sum is kept as one long fixed-point number, from 2^-320 to 2^320, in limbs of 32 bits that lie in 64, so that
 * 2^30 numbers can be added before a carry must be taken on. A number of 53 bits lies in three limbs at most:
 *
 *   sum = sum over i of limb[i] 2^(32 i - 320)
 *
 * Integers add without rounding, so no order of adding, no way to share the numbers out over threads or ranks, and no
 * place where a shard ends can change a bit. It is rounded once, to nearest, when somebody reads it. What it costs is
 * about ten integer operations a number.
 *
 * Sources: Kulisch 2013, "Computer Arithmetic and Validity", chapter 8 (the long accumulator); Collange, Defour,
 * Graillat and Iakymchuk 2015, "Numerical reproducibility for the parallel reduction on multi- and many-core
 * architectures"; Demmel and Nguyen 2013 for what reproducibility without it takes. */
#pragma once

#include <stdint.h>

enum { EXACT_LIMBS = 20, EXACT_NUMBERS = EXACT_LIMBS + 1 };

/* Zero at first. `special`: what was added and is not finite, or has bits beyond the limbs, which makes it NaN. */
struct exact { int64_t limb[EXACT_LIMBS]; double special; int64_t n_added; };

/** *sum += x. */
void exact_add(struct exact *sum, double x);
/** *sum += x[0]^2 + x[1]^2 + ...; on all OpenMP threads. */
void exact_add_squares(struct exact *sum, const float *x, int64_t n);

/** As numbers that ranks can add up in fp64, exactly and in any order, for up to 2^20 ranks. */
void exact_numbers(const struct exact *, double numbers[EXACT_NUMBERS]);
/** The value of such numbers, or of their sum over ranks, rounded to nearest; not finite if any term was not. */
double exact_value(const double numbers[EXACT_NUMBERS]);
