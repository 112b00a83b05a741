/* The end of each half of a transformer layer: y = residual + dropout(x + b), or without b
 *
 *   dx = dy m     dresidual = dy     db[c] += sum_r dy[r,c] m[r,c]        m = 0 or 1/(1-p), drawn again (dropout.h)
 *
 * in[0] x (B,T,C)   in[1] residual (B,T,C)   out[0] y (B,T,C)   weight[0] b (C); dropout_residual has
 * none
 * out[1] the mask, uint8 (B,T,C): only in steps that store it, which then do not draw again
 *
 * Backward reads nothing but dy (and the mask, where there is one), so nothing else is saved: y may lie over x, which
 * dies here, and dresidual is dy itself. Position, channel and sample are global: a shard of T or C draws its own part
 * of the mask. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_bias_dropout_residual, op_dropout_residual;
