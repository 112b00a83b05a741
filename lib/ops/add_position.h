/* Position embedding, and the dropout that follows it: y[b,t] = dropout(x[b,t] + P[t])
 *
 *   dx = dy m     dP[t,c] += sum_b dy[b,t,c] m[b,t,c]      m = 0 or 1/(1-p), drawn again (dropout.h)
 *
 * in[0] x (B,T,C)   out[0] y (B,T,C)   weight[0] P (T,C), at least as long as the sequence
 * out[1] the mask, uint8 (B,T,C): only in steps that store it, which then do not draw again
 *
 * With a shard of the sequence, row t of P is the *global* position: P is whole, and its gradient is a partial sum. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_add_position;
