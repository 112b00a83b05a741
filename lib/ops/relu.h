/* ReLU:  y = max(x, 0)      dx = dy where x > 0, else 0
 *
 * in[0] x   out[0] y, the same type. Elementwise, so any shard of any axis will do. NaN stays NaN. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_relu;
