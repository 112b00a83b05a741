/* Position embedding and its dropout: y[b,t] = dropout(x[b,t] + P[t])
 *
 *   dx = dy m     dP[t,c] += sum_b dy[b,t,c] m[b,t,c]      m = 0 or 1/(1-p), drawn again (dropout.h)
 *
 * in[0] x (B,T,C)   out[0] y (B,T,C)   weight[0] P (T,C), at least as long as the sequence
 * out[1] the mask, uint8 (B,T,C): only if the step keeps it; backward then does not draw again
 *
 * t is the *global* position, also in a shard of the sequence: P is whole, and its gradient is a partial sum. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_add_position;
