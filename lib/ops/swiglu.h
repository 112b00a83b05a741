/* The gated unit of Llama's MLP: SiLU of one half of the hidden units multiplies the other half.
 *
 *   a, u = the two halves of x      y = silu(a) u      silu(a) = a s(a)      s(a) = 1 / (1 + e^-a)
 *
 * Backward:   da = dy u s (1 + a (1 - s))     du = dy silu(a)
 *
 * in[0] x (B,T,2,K): the gate a, then u   out[0] y (B,T,K)   Elementwise over K, so any shard of K will do.
 * Source: Shazeer 2020 (GLU variants). */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_swiglu;
