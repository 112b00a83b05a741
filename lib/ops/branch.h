/* A second name y for a tensor x, so that y has only one reader:  y = x    dx = dy, or dx += dy
 *
 * Forward is a view, and so is backward if no other step reads x. tp_enter and sp_enter exchange the gradient of their
 * input in place, so they must be its only reader. They read y; branch's backward then adds dy to the gradients of x's
 * other readers.
 *
 * in[0] x   out[0] y, the same type. Elementwise, so any shard of any axis will do. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_branch;
