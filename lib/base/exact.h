/* Sums without rounding. The numbers are fp32 values or products of two fp32 values.
 *
 * The sum is one long fixed-point number from 2^-320 to 2^320. A limb holds 32 bits of the sum in an int64_t, so that
 * 2^30 numbers can be added before a carry to the next limb. A number of 53 bits covers at most three limbs:
 *
 *   sum = sum over i of limb[i] 2^(32 i - 320)
 *
 * Integers add without rounding, so the order of additions, the division over threads or ranks and the bounds of
 * shards change no bit. exact_value rounds the sum once, to nearest. The cost is about ten integer operations a
 * number.
 *
 * Sources: Kulisch 2013, "Computer Arithmetic and Validity", chapter 8 (the long accumulator); Collange, Defour,
 * Graillat and Iakymchuk 2015, "Numerical reproducibility for the parallel reduction on multi- and many-core
 * architectures"; Demmel and Nguyen 2013 for reproducible sums without a long accumulator. */
#pragma once

#include <stdint.h>

enum { EXACT_LIMBS = 20, EXACT_NUMBERS = EXACT_LIMBS + 1 };

/* Zero-initialized. `special`: fp64 sum of the terms that are not finite; NaN if a term has bits outside the limbs. */
struct exact { int64_t limb[EXACT_LIMBS]; double special; int64_t n_added; };

/** *sum += x. */
void exact_add(struct exact *sum, double x);
/** *sum += x[0]^2 + x[1]^2 + ...; on all OpenMP threads. */
void exact_add_squares(struct exact *sum, const float *x, int64_t n);

/** The sum as fp64 numbers; up to 2^20 ranks can add their numbers exactly, in any order. */
void exact_numbers(const struct exact *, double numbers[EXACT_NUMBERS]);
/** The value of these numbers, or of their sum over ranks, rounded to nearest; not finite if a term was not finite. */
double exact_value(const double numbers[EXACT_NUMBERS]);
