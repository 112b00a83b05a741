/* The end of each half of a transformer layer: y = residual + dropout(x + b); dropout_residual has no b
 *
 *   dx = dy m     dresidual = dy     db[c] += sum_r dy[r,c] m[r,c]        m = 0 or 1/(1-p), drawn again (dropout.h)
 *
 * in[0] x (B,T,C)   in[1] residual (B,T,C)   out[0] y (B,T,C)   weight[0] b (C)
 * out[1] the mask, uint8 (B,T,C): only if the step keeps it; backward then does not draw again
 *
 * Backward reads only dy and the mask, if there is one. So no operand is saved: y may overwrite x, which dies here, and
 * dresidual is dy itself. Dropout draws by global position, channel and sample, so a shard of T or C draws its own part
 * of the mask. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_bias_dropout_residual, op_dropout_residual;
