/* GELU in the tanh form of GPT-2:
 *
 *   u = sqrt(2/pi) (x + 0.044715 x^3)      y = x (1 + tanh u) / 2 = x s,   s = 1 / (1 + e^(-2u))
 *   dx = dy (s + 2 x s (1 - s) u')         u' = sqrt(2/pi) (1 + 3 0.044715 x^2)
 *
 * and gelu_erf, GELU by its definition, with the normal distribution's Phi, as in BERT:
 *
 *   y = x Phi(x)                           Phi(x) = (1 + erf(x / sqrt 2)) / 2 = erfc(-x / sqrt 2) / 2
 *   dx = dy (Phi(x) + x phi(x))            phi(x) = e^(-x^2 / 2) / sqrt(2 pi)
 *
 * erfc keeps its digits where Phi is small; 1 + erf would be a difference of nearly equal numbers.
 *
 * in[0] x   out[0] y, the same type. Elementwise, so any shard of any axis will do. Source: Hendrycks and Gimpel 2016.
 */
#pragma once

#include "lib/ops/op.h"

#define GELU_SQRT_2_OVER_PI 0.79788456080286535588
#define GELU_CUBIC 0.044715
#define GELU_SQRT_HALF 0.70710678118654752440
#define GELU_1_OVER_SQRT_2_PI 0.39894228040143267794

extern const struct op op_gelu, op_gelu_erf;
