/* The loss over a vocabulary sharded over tp. See tp_cross_entropy.c. */
#pragma once

#include "lib/ops/op.h"

/** in[0] logits (B,T,V/tp), in[1] targets (B,T) int32 -> out[0] the loss, the same on every rank; out[1] lse (B,T). */
extern const struct op op_tp_cross_entropy;
