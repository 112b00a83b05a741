/* The router: how well each expert suits a token. It computes in fp32 at least, because in 16 bits two experts would
 * often have equal logits, and the rule for ties would decide where a token goes.
 *
 *   logits[t,e] = sum_c x[t,c] W[e,c] + b[e]     b only if the step has it
 *   dx[t,c] = sum_e dlogits[t,e] W[e,c]          dW[e,c] += sum_t dlogits[t,e] x[t,c]     db[e] += sum_t dlogits[t,e]
 *
 * in[0] x (B,T,C)   weight[0] W (E,C), weight[1] b (E) and out[0] logits (B,T,E), all in the accumulator's dtype
 *
 * There are few experts, so these are plain loops. Sums over channels are in lanes (cpu.h), sums over tokens in order,
 * so that any number of threads gives the same bits. Source: Fedus et al. 2021 (Switch), section 2.4. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_moe_logits;
