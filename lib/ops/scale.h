/* Scaling:  y = x by      dx = dy by      by: the step's rule
 *
 * in[0] x   out[0] y, the same type. Elementwise, so any shard of any axis will do. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_scale;
