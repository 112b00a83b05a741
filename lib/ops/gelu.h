/* GELU in the tanh form of GPT-2:
 *
 *   u = sqrt(2/pi) (x + 0.044715 x^3)      y = x (1 + tanh u) / 2 = x s,   s = 1 / (1 + e^(-2u))
 *   dx = dy (s + 2 x s (1 - s) u')         u' = sqrt(2/pi) (1 + 3 0.044715 x^2)
 *
 * in[0] x   out[0] y, the same type. Elementwise, so any shard of any axis will do. Source: Hendrycks and Gimpel 2016.
 */
#pragma once

#include "lib/ops/op.h"

#define GELU_SQRT_2_OVER_PI 0.79788456080286535588
#define GELU_CUBIC 0.044715

extern const struct op op_gelu;
