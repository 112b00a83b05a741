/* Gated units: an activation of one half of the hidden units multiplies the other half. Llama's is SiLU, that of T5 1.1
 * and Gemma GELU in the tanh form.
 *
 *   a, u = the two halves of x
 *   swiglu   y = silu(a) u     silu(a) = a s(a)    s(a) = 1 / (1 + e^-a)
 *   geglu    y = gelu(a) u     gelu: gelu.h
 *   swiglu_clamped   y = a' s(1.702 a') (u' + 1)     a' = min(a, L), u' = min(max(u, -L), L)     L: rule.limit
 *
 * Backward:   da = dy u silu'(a) = dy u s (1 + a (1 - s))     du = dy silu(a); geglu likewise, with gelu. Clamped,
 * da is zero where a > L, and du where |u| > L.
 *
 * in[0] x (B,T,2,K): the gate a, then u   out[0] y (B,T,K)   Elementwise over K, so any shard of K will do.
 * Source: Shazeer 2020 (GLU variants); OpenAI 2025 (gpt-oss: clamped). */
#pragma once

#include "lib/ops/op.h"

/* The clamped gate is a s(1.702 a), an approximation of gelu. */
#define SWIGLU_CLAMPED_ALPHA 1.702

extern const struct op op_swiglu, op_geglu, op_swiglu_clamped;
