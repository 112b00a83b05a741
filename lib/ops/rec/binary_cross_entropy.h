/* Binary cross-entropy of logits:
 *
 *   loss = loss_weight sum over samples of log(1 + e^x) - y x         dx = loss_weight loss_scale (1 / (1 + e^-x) - y)
 *
 * in[0] logits (P,B,1)   in[1] labels int32 (P,B): 0, 1, or negative where there is no sample (a batch's ragged end)
 * out[0] loss (1), in the accumulator's dtype. Samples are added in order, in double.
 * log(1 + e^x) = max(x, 0) + log1p(e^-|x|), which neither overflows nor loses digits. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_binary_cross_entropy;
