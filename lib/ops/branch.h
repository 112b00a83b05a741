/* A second name for a tensor, for a reader of its own:  y = x    dx = dy, or dx += dy
 *
 * Forward is a view, and so is backward where no other step reads x. An op that exchanges the gradient of its input in
 * place must be its only reader (tp_enter, sp_enter): it reads y, and what it has made is added to what the other
 * readers of x made.
 *
 * in[0] x   out[0] y, the same type. Elementwise, so any shard of any axis will do. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_branch;
