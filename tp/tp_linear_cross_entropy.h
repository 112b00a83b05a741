/* The head and its loss by chunks of tokens, over a vocabulary sharded over tp. See tp_linear_cross_entropy.c. */
#pragma once

#include "lib/ops/op.h"

/** in[0] x (B,T,C), in[1] targets (B,T) int32, weight[0] W (V/tp,C) -> out[0] the loss, the same on every rank. */
extern const struct op op_tp_linear_cross_entropy;
